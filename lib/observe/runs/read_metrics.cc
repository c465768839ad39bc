#include "observe/runs/read_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/json.h"
#include "base/line_reader.h"

namespace dtrain::observe {
namespace {

using nlohmann::json;

constexpr size_t kCurvesMax = 4000;  // limited, because a file is not trusted
constexpr int64_t kRanksMax = 65536;
constexpr size_t kNameBytesMax = 100;

// Keys that are not metrics, but say which process made the measurement, and when.
constexpr std::array kPlaces = {"time", "role", "rank", "epoch", "step", "seconds", "samples"};

// Metrics that describe the moment at which the line was written, even if a window or an epoch ended then.
constexpr std::array kOfMoments = {"lr",          "memory_bytes",     "gpu_busy_share", "gpu_memory_bytes",
                                   "gpu_power_w", "gpu_temperature_c"};

bool is_of_moment(std::string_view metric) {
  return std::find(kOfMoments.begin(), kOfMoments.end(), metric.substr(0, metric.find('/'))) != kOfMoments.end();
}

double number_or(const json& line, const char* key, double otherwise) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : otherwise;
}

// The number of steps in an epoch of each worker, in order of rank: "235,235".
std::vector<double> batches_of(const Run& run) {
  std::vector<double> batches;
  const auto found = run.settings.find("batches");
  if (found == run.settings.end()) return batches;
  const char* at = found->second.data();
  const char* const end = at + found->second.size();
  while (at < end) {
    double value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !(value > 0)) return {};
    batches.push_back(value);
    at = stop < end ? stop + 1 : end;
  }
  return batches;
}

class MetricsReader {
 public:
  explicit MetricsReader(Run& run) : run_(run), batches_(batches_of(run)) {}

  // Adds a line. Returns false if it is not a line of metrics.
  bool add(std::string_view text) {
    const json line = parse_json(text);
    if (!line.is_object()) return false;
    const auto role = line.find("role"), rank = line.find("rank");
    if (role == line.end() || !role->is_string() || rank == line.end() || !rank->is_number_integer()) return false;
    key_ = {
        .metric = {}, .of_epochs = is_of_epoch(line), .role = role->get<std::string>(), .rank = rank->get<int64_t>()};
    if (key_.rank < 0 || key_.rank >= kRanksMax || (key_.role != "worker" && key_.role != "server")) return false;
    const Moment at = moment_of(line);
    for (const auto& [name, value] : line.items()) {
      if (std::find(kPlaces.begin(), kPlaces.end(), name) != kPlaces.end()) continue;
      if (value.is_object()) {
        for (const auto& [label, part] : value.items()) add_labeled(name, label, at, part);
      } else {
        add_value(name, at, value);
      }
    }
    return true;
  }

  [[nodiscard]] uint64_t left_out() const { return left_out_; }

 private:
  struct Clock {
    double last = 0, before = 0;  // `last`: seconds of this process; `before`: sum over the earlier processes
    double written = kUnknown;    // the time of the last line, in seconds since 1970
  };

  static bool is_of_epoch(const json& line) {
    return !line.contains("samples_per_s") && (line.contains("bad_records") || line.contains("validation_accuracy"));
  }

  Moment moment_of(const json& line) {
    Moment at;
    at.step = number_or(line, "step", kUnknown);
    at.samples = number_or(line, "samples", kUnknown);
    if (const double seconds = number_or(line, "seconds", kUnknown); key_.role == "worker" && !std::isnan(seconds)) {
      at.seconds = since_the_beginning(seconds, number_or(line, "time", kUnknown), at);
      run_.wall_seconds[key_.rank] = at.seconds;
    }
    const double epoch = number_or(line, "epoch", kUnknown);
    const auto rank = static_cast<size_t>(key_.rank);
    if (rank < batches_.size() && key_.role == "worker") {
      at.epoch = at.step / batches_[rank];
    } else if (key_.of_epochs) {
      at.epoch = epoch + 1;
    }
    return at;
  }

  // Converts the seconds of a process to seconds since the run began. In a process that continues a run, they begin at
  // 0 again. Such a process is recognized in two ways: its seconds are fewer than those of the line before, or it was
  // started after that line was written. `time`: the line's time.
  double since_the_beginning(double seconds, double time, Moment at) {
    Clock& clock = clocks_[key_.rank];
    if (seconds < clock.last || time - seconds > clock.written) {
      clock.before += clock.last;
      for (auto& [series, spent] : run_.phase_seconds) {
        if (series.first == key_.rank) phases_before_[series] = spent;
      }
      at.seconds = clock.before;
      if (key_.rank == 0 && run_.resumptions.size() < 100) run_.resumptions.push_back({at});
    }
    clock.last = seconds;
    clock.written = time;
    return clock.before + seconds;
  }

  void add_labeled(const std::string& name, const std::string& label, const Moment& at, const json& value) {
    if (name == "phase_s" && value.is_number() && label.size() <= kNameBytesMax) {
      const std::pair series(key_.rank, label);
      if (run_.phase_seconds.size() >= kCurvesMax && !run_.phase_seconds.contains(series)) return void(left_out_++);
      run_.phase_seconds[series] = phases_before_[series] + value.get<double>();
      return;
    }
    if (name == "train_metric") return add_value("train_" + label, at, value);
    if (name == "validation_metric") return add_value("validation_" + label, at, value);
    add_value(name + "/" + label, at, value);
  }

  void add_value(const std::string& name, const Moment& at, const json& value) {
    if (!value.is_number() && !value.is_null()) return;
    CurveKey key = key_;
    key.metric = name;
    key.of_epochs = key_.of_epochs && !is_of_moment(name);
    const auto found = run_.curves.find(key);
    if (found == run_.curves.end() && (run_.curves.size() >= kCurvesMax || name.size() > kNameBytesMax)) {
      left_out_++;
      return;
    }
    Curve& curve = found == run_.curves.end() ? run_.curves[key] : found->second;
    curve.add({at, value.is_null() ? kUnknown : value.get<double>()});
  }

  Run& run_;
  std::vector<double> batches_;
  CurveKey key_;  // key of the current line
  std::map<int64_t, Clock> clocks_;
  std::map<std::pair<int64_t, std::string>, double> phases_before_;
  uint64_t left_out_ = 0;
};

}  // namespace

Result<> read_metrics(const std::string& path, Run& run) {
  DT_TRY(LineReader lines, LineReader::open(path));
  MetricsReader reader(run);
  uint64_t broken = 0, first_broken = 0;
  bool is_cut_short = false;
  while (true) {
    DT_TRY(const std::optional<std::string_view> line, lines.next());
    if (!line) break;
    if (line->empty() || reader.add(*line)) continue;
    is_cut_short = !lines.has_newline();
    if (is_cut_short) break;
    if (broken++ == 0) first_broken = lines.number();
  }
  if (broken != 0) {
    run.problems.push_back(fmt::format("{}: {} {} no metrics and {} skipped; the first is line {}", path, broken,
                                       broken == 1 ? "line has" : "lines have", broken == 1 ? "is" : "are",
                                       first_broken));
  }
  if (is_cut_short) {
    run.problems.push_back(fmt::format("{}: the file ends within line {}, which is skipped", path, lines.number()));
  }
  if (reader.left_out() != 0) {
    run.problems.push_back(fmt::format("{}: {} values are left out: too many metrics, or names that are too long", path,
                                       reader.left_out()));
  }
  return {};
}

}  // namespace dtrain::observe
