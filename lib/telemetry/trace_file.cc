#include "telemetry/trace_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/line_reader.h"
#include "base/printable.h"

namespace dtrain::telemetry {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "trace-", kSuffix = ".json";
constexpr std::string_view kEnd = "]}";
// The number of bytes written at a time.
constexpr size_t kBlockBytes = size_t{1} << 20;
// The longest line that is accepted, far above the length of the lines that this program writes.
constexpr size_t kLineBytesMax = size_t{1} << 16;

// Numbers of processes, which Chrome's format requires. They determine the order in which processes are shown: the
// scheduler, the servers, the workers.
constexpr uint64_t kServers = 1'000'000, kWorkers = 2'000'000;
uint64_t process_number(const TraceOrigin& origin) {
  if (origin.role == "scheduler") return 1;
  return (origin.role == "server" ? kServers : kWorkers) + origin.rank;
}

std::string json_string(std::string_view text) {
  return json_text(nlohmann::json(text));
}

std::string_view phase_of(ArrowPoint point) {
  constexpr std::array<std::string_view, 3> kPhases = {"s", "t", "f"};
  return kPhases[static_cast<size_t>(point)];
}

// The first step: a number; or a list with one number per worker if they differ; or null if no step was made.
nlohmann::ordered_json first_step_json(const TraceRequest& request) {
  if (request.first_steps.size() > 1) return request.first_steps;
  return request.first_steps.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(request.first_steps.front());
}

// Writes the lines of one file.
class Writer {
 public:
  explicit Writer(AtomicFile file) : file_(std::move(file)) {}

  Result<> head(const nlohmann::ordered_json& about) {
    return put(fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n", json_text(about)));
  }
  Result<> line(std::string_view event) {
    if (lines_++ > 0) DT_TRY_VOID(put(",\n"));
    return put(event);
  }
  Result<> finish() {
    DT_TRY_VOID(put(lines_ > 0 ? "\n]}\n" : "]}\n"));
    DT_TRY_VOID(flush());
    return file_.commit();
  }
  [[nodiscard]] uint64_t lines() const { return lines_; }

 private:
  Result<> put(std::string_view text) {
    block_ += text;
    return block_.size() < kBlockBytes ? Result<>{} : flush();
  }
  Result<> flush() {
    DT_TRY_VOID(file_.write(std::exchange(block_, {})));
    return {};
  }

  AtomicFile file_;
  std::string block_;
  uint64_t lines_ = 0;
};

// The events of one process as JSON.
class EventLines {
 public:
  EventLines(const TraceOrigin& origin, Writer& writer)
      : process_(process_number(origin)), offset_us_(origin.clock ? origin.clock->offset_us : 0), writer_(writer) {}

  Result<> about_process(const std::string& name) {
    DT_TRY_VOID(about("process_name", 0, fmt::format("\"name\":{}", json_string(name))));
    return about("process_sort_index", 0, fmt::format("\"sort_index\":{}", process_));
  }

  Result<> row(size_t thread, const TimelineRow& row) {
    DT_TRY_VOID(about("thread_name", thread, fmt::format("\"name\":{}", json_string(row.thread))));
    // Sorts the spans by beginning, with a span before the spans that it contains, because they were recorded when they
    // ended.
    std::vector<const TimelineEvent*> events;
    for (const TimelineEvent& event : row.events) events.push_back(&event);
    std::ranges::stable_sort(events, {}, [](const TimelineEvent* e) { return std::pair(e->begin_ns, -e->end_ns); });
    for (const TimelineEvent* event : events) DT_TRY_VOID(write(thread, *event));
    return {};
  }

 private:
  Result<> about(std::string_view what, size_t thread, const std::string& arguments) {
    return writer_.line(
        fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what, process_, thread, arguments));
  }

  Result<> write(size_t thread, const TimelineEvent& event) {
    constexpr double kNsPerUs = 1000;
    const double begin = static_cast<double>(event.begin_ns) / kNsPerUs + static_cast<double>(offset_us_);
    std::string line = fmt::format(R"({{"name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},)", json_string(event.name),
                                   event.category, process_, thread, begin);
    if (event.kind == TimelineEvent::Kind::kArrow) {
      line += fmt::format(R"("ph":"{}","id":"0x{:x}")", phase_of(event.point), event.arrow);
      if (event.point == ArrowPoint::kEnd) line += R"(,"bp":"e")";
    } else {
      line += fmt::format(R"("ph":"X","dur":{:.3f})", static_cast<double>(event.end_ns - event.begin_ns) / kNsPerUs);
      std::string arguments;
      for (const TimelineEvent::Argument& argument : event.arguments) {
        if (argument.name == nullptr) break;
        arguments += fmt::format("{}\"{}\":{}", arguments.empty() ? "" : ",", argument.name, argument.value);
      }
      if (!arguments.empty()) line += fmt::format(R"(,"args":{{{}}})", arguments);
    }
    return writer_.line(line + "}");
  }

  const uint64_t process_;
  const int64_t offset_us_;
  Writer& writer_;
};

// The part of a process's file that is needed to merge the files.
struct Source {
  std::string path;
  uint64_t number = 0;
  nlohmann::ordered_json about;
};

// True if the file is complete. A file that was not completely written has a different end.
bool has_end(const std::string& path) {
  std::string end(kEnd.size() + 1, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end);
  file.read(end.data(), static_cast<std::streamsize>(end.size()));
  return file.good() && end.back() == '\n' && end.starts_with(kEnd);
}

// The data of the first line. An Error says why the file cannot be used.
Result<Source> read_head(const std::string& path) {
  DT_TRY(LineReader lines, LineReader::open(path));
  DT_TRY(const std::optional<std::string_view> line, lines.next());
  if (!line || line->size() > kLineBytesMax) return fail(Code::kData, "the file is not a trace of dtrain");
  const auto head = parse_json<nlohmann::ordered_json>(std::string(*line).append(kEnd));
  const auto about = head.is_object() ? head.find("otherData") : head.end();
  if (!head.is_object() || about == head.end() || !about->is_object() ||
      !about->value("trace", nlohmann::ordered_json()).is_number_unsigned()) {
    return fail(Code::kData, "the file is not a trace of dtrain");
  }
  if (!has_end(path)) return fail(Code::kData, "the file is cut short");
  return Source{.path = path, .number = about->at("trace").get<uint64_t>(), .about = *about};
}

Result<> copy_events(const Source& source, Writer& out) {
  DT_TRY(LineReader lines, LineReader::open(source.path));
  DT_TRY_VOID(lines.next());  // skips the head
  while (true) {
    DT_TRY(std::optional<std::string_view> line, lines.next());
    if (!line || *line == kEnd) return {};
    if (line->ends_with(',')) line->remove_suffix(1);
    if (line->size() > kLineBytesMax || !parse_json(*line).is_object()) {
      return fail(Code::kData, "{}: line {} is not an event: {}", source.path, lines.number(), printable(*line, 80));
    }
    DT_TRY_VOID(out.line(*line));
  }
}

}  // namespace

std::string trace_file_name(const std::string& role, uint32_t rank) {
  return fmt::format("{}{}-{}{}", kPrefix, role, rank, kSuffix);
}

bool is_trace_file(std::string_view name) {
  return name == kWholeTraceFile || (name.starts_with(kPrefix) && name.ends_with(kSuffix));
}

void remove_traces(const std::string& directory) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (is_trace_file(entry.path().filename().string())) files.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
}

Result<> write_trace(const std::string& path, const TraceOrigin& origin, const std::vector<TimelineRow>& rows,
                     uint64_t dropped) {
  DT_TRY(AtomicFile file, AtomicFile::create(path));
  Writer writer(std::move(file));
  nlohmann::ordered_json about{{"role", origin.role},
                               {"rank", origin.rank},
                               {"trace", origin.request.number},
                               {"first_step", first_step_json(origin.request)},
                               {"steps", origin.request.steps},
                               {"clock_error_us", nullptr},
                               {"dropped_events", dropped}};
  if (origin.clock) about["clock_error_us"] = origin.clock->error_us;
  DT_TRY_VOID(writer.head(about));
  EventLines lines(origin, writer);
  DT_TRY_VOID(lines.about_process(fmt::format("{} {}", origin.role, origin.rank)));
  for (size_t i = 0; i < rows.size(); i++) DT_TRY_VOID(lines.row(i + 1, rows[i]));
  return writer.finish();
}

Result<MergedTrace> merge_traces(const std::vector<std::string>& directories) {
  MergedTrace merged;
  // The found files, indexed by name, because the same file may be in several directories.
  std::map<std::string, Source> sources;
  for (const std::string& directory : directories) {
    std::error_code error;
    fs::directory_iterator entries(directory, error);
    if (error) return fail(Code::kNotFound, "{}: {}", directory, error.message());
    for (const fs::directory_entry& entry : entries) {
      const std::string name = entry.path().filename().string();
      if (!is_trace_file(name) || name == kWholeTraceFile) continue;
      Result<Source> source = read_head(entry.path().string());
      if (source) {
        sources.emplace(name, std::move(*source));
      } else {
        merged.left_out.push_back(fmt::format("{}: {}", entry.path().string(), source.error().message));
      }
    }
  }
  for (const auto& [name, source] : sources) merged.number = std::max(merged.number, source.number);
  merged.path = directories.front() + "/" + kWholeTraceFile;
  if (sources.empty()) {
    return fail(Code::kNotFound,
                "{}: there is no trace in this directory: start the job with --trace N, or send SIGUSR2 to the job",
                directories.front());
  }
  DT_TRY(AtomicFile file, AtomicFile::create(merged.path));
  Writer writer(std::move(file));
  nlohmann::ordered_json about{{"trace", merged.number}, {"processes", nlohmann::ordered_json::array()}};
  for (const auto& [name, source] : sources) {
    if (source.number == merged.number) about["processes"].push_back(source.about);
  }
  DT_TRY_VOID(writer.head(about));
  for (const auto& [name, source] : sources) {
    if (source.number != merged.number) {
      merged.left_out.push_back(fmt::format("{}: the file belongs to trace {}", source.path, source.number));
      continue;
    }
    DT_TRY_VOID(copy_events(source, writer));
    merged.files++;
  }
  merged.events = writer.lines();
  DT_TRY_VOID(writer.finish());
  return merged;
}

}  // namespace dtrain::telemetry
