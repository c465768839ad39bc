#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "observe/runs/read_log.h"
#include "observe/runs/read_metrics.h"
#include "observe/runs/run.h"

namespace dtrain::observe {
namespace {

namespace fs = std::filesystem;

using telemetry::ClassResults;

constexpr uint64_t kSummaryBytesMax = 16 << 20, kClassResultsBytesMax = 64 << 20, kSettingsMax = 10'000;

// Parses lines "KEY = VALUE". Accepts the keys of any version.
std::map<std::string, std::string> parse_settings(std::string_view text) {
  std::map<std::string, std::string> settings;
  while (!text.empty() && settings.size() < kSettingsMax) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t equal = line.find(" = ");
    if (equal != std::string_view::npos) settings.emplace(line.substr(0, equal), line.substr(equal + 3));
  }
  return settings;
}

// Reads a file that may be missing. If it is, notes a problem and returns nullopt.
std::optional<std::string> read_if_there(const std::string& path, const char* what, Run& run) {
  Result<std::string> text = read_file(path, kSummaryBytesMax);
  if (text) return std::move(*text);
  run.problems.push_back(text.error().code == Code::kNotFound ? fmt::format("{}: the file is missing: {}", path, what)
                                                              : text.error().message);
  return std::nullopt;
}

std::vector<std::string> logs_in(const std::string& directory) {
  std::vector<std::string> logs;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_role = name.starts_with("worker-") || name.starts_with("server-") || name.starts_with("scheduler-");
    if (is_role && name.ends_with(".log")) logs.push_back(entry->path().string());
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

void read_summary(const std::string& directory, Run& run) {
  const std::string path = directory + "/summary.json";
  const std::optional<std::string> text =
      read_if_there(path, "the run has not ended, or it was killed with its launcher", run);
  if (!text) return;
  nlohmann::json summary = parse_json(*text);
  if (summary.is_object()) {
    run.summary = std::move(summary);
  } else {
    run.problems.push_back(fmt::format("{}: the file is not a JSON object; it may be cut short", path));
  }
}

std::vector<ClassResults> class_results_in(const std::string& directory, Run& run) {
  std::vector<ClassResults> all;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!telemetry::is_class_results_file(entry->path().filename().string())) continue;
    const Result<std::string> text = read_file(path, kClassResultsBytesMax);
    Result<ClassResults> results = text ? telemetry::parse_class_results(*text) : tl::unexpected(text.error());
    if (results) {
      all.push_back(std::move(*results));
    } else {
      run.problems.push_back(fmt::format("{}: {}", path, results.error().message));
    }
  }
  std::ranges::sort(all, {}, &ClassResults::rank);
  return all;
}

// Reads the latest validation. Files about an older validation are skipped: a worker that was lost, or that the resumed
// run no longer has, may have left such a file behind.
void read_validation(const std::string& directory, Run& run) {
  const std::vector<ClassResults> parts = class_results_in(directory, run);
  const auto newest = std::ranges::max_element(parts, {}, &ClassResults::epoch);  // the first one, if several are equal
  if (newest == parts.end()) return;
  run.validation = *newest;
  ClassResults& all = *run.validation;
  for (const ClassResults& part : parts) {
    const bool belongs = part.epoch == all.epoch && part.workers == all.workers && part.rank < all.workers;
    if (!belongs || &part == &*newest) continue;
    all.counts.add(part.counts);
    all.worst.insert(all.worst.end(), part.worst.begin(), part.worst.end());
    telemetry::keep_worst(all.worst);
  }
}

Result<Run> read_directory(const std::string& path, Run run) {
  run.is_directory = true;
  std::error_code error;
  const auto has = [&](const char* file) { return fs::exists(path + "/" + file, error); };
  const std::vector<std::string> logs = logs_in(path);
  if (!has("metrics.jsonl") && !has("summary.json") && !has("jobspec") && logs.empty()) {
    return fail(Code::kData,
                "{}: the directory is not a run directory: it has no metrics.jsonl, summary.json, jobspec or "
                "worker-*.log; give the directory that --run-dir named, or one of runs/",
                path);
  }
  if (const auto text = read_if_there(path + "/jobspec", "the settings of the run are not known", run)) {
    run.settings = parse_settings(*text);
  }
  read_summary(path, run);
  if (const Result<> read = read_metrics(path + "/metrics.jsonl", run); !read) {
    run.problems.push_back(
        read.error().code == Code::kNotFound
            ? fmt::format("{}/metrics.jsonl: the file is missing, so the curves are drawn from the logs", path)
            : read.error().message);
  }
  read_validation(path, run);
  if (logs.empty()) run.problems.push_back(fmt::format("{}: there are no logs (worker-0.log and others)", path));
  DT_TRY_VOID(read_logs(logs, run));
  return run;
}

// The last component of a path, even of "runs/a/".
std::string name_of(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  const std::string name =
      normal.filename().empty() ? normal.parent_path().filename().string() : normal.filename().string();
  return name.empty() ? path : name;
}

}  // namespace

std::set<std::string> Run::metrics() const {
  std::set<std::string> names;
  for (const auto& [key, curve] : curves) names.insert(key.metric);
  return names;
}

const Curve* Run::curve(const CurveKey& key) const {
  const auto found = curves.find(key);
  return found == curves.end() ? nullptr : &found->second;
}

std::vector<int64_t> Run::workers_with(const std::string& metric, bool of_epochs) const {
  std::vector<int64_t> ranks;
  for (auto at = curves.lower_bound({metric, of_epochs, "worker", 0}); at != curves.end(); at++) {
    if (at->first.metric != metric || at->first.of_epochs != of_epochs || at->first.role != "worker") break;
    ranks.push_back(at->first.rank);
  }
  return ranks;
}

std::optional<double> Run::setting_number(const std::string& key) const {
  const auto found = settings.find(key);
  if (found == settings.end()) return std::nullopt;
  double value = 0;
  const char* const begin = found->second.data();
  const auto [end, error] = std::from_chars(begin, begin + found->second.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> Run::summary_number(const char* key) const {
  if (!summary.is_object()) return std::nullopt;
  const auto found = summary.find(key);
  if (found == summary.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

Result<Run> read_run(const std::string& path) {
  Run run;
  run.path = path;
  run.name = name_of(path);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return fail(Code::kNotFound, "{}: there is no such run directory or log", path);
  if (fs::is_directory(status)) return read_directory(path, std::move(run));
  DT_TRY(const uint64_t lines, read_logs({path}, run));
  if (lines == 0) {
    return fail(Code::kData,
                "{}: the file is neither a run directory nor a training log: it has no line such as 'Epoch[0] "
                "Train-accuracy=0.5' or 'Epoch[0] Batch [20] Speed: 100.00 samples/sec'",
                path);
  }
  return run;
}

Result<std::vector<Run>> read_runs(const std::vector<std::string>& paths) {
  std::vector<Run> runs;
  std::map<std::string, int> names;
  for (const std::string& path : paths) {
    DT_TRY(Run run, read_run(path));
    names[run.name]++;
    runs.push_back(std::move(run));
  }
  for (Run& run : runs) {
    if (names[run.name] > 1) run.name = run.path;
  }
  return runs;
}

}  // namespace dtrain::observe
