// What is known about a run, from its run directory or from a log.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "observe/runs/curve.h"
#include "telemetry/class_results.h"

namespace dtrain::observe {

struct CurveKey {
  std::string metric;  // as in metrics.jsonl; "train_top_k_accuracy_5" for metrics without a predefined name
  // True: values of whole epochs and of validations; false: values of windows within epochs, or of moments.
  bool of_epochs = false;
  std::string role;  // role of the process: "worker", "server"
  int64_t rank = 0;
  // "0" of "gpu_busy_share/0"; empty if the metric has no label.
  [[nodiscard]] std::string label() const {
    const size_t slash = metric.find('/');
    return slash == std::string::npos ? "" : metric.substr(slash + 1);
  }
  bool operator<(const CurveKey& other) const {
    return std::tie(metric, of_epochs, role, rank) < std::tie(other.metric, other.of_epochs, other.role, other.rank);
  }
};

// A metric with a label has a curve for each label: "gpu_busy_share/0" is a curve of "gpu_busy_share".
inline bool is_curve_of(std::string_view curve, std::string_view metric) {
  return curve.starts_with(metric) && (curve.size() == metric.size() || curve[metric.size()] == '/');
}

// A warning or an error in a log. Messages whose texts differ only in numbers are counted together.
struct LogMessage {
  std::string text;  // text of the first of these messages
  std::string node;  // node that wrote the first one: "0", "server 1"
  bool is_error = false;
  uint64_t count = 0;
};

struct Resumption {
  Moment at;
};

struct Run {
  std::string path, name;
  bool is_directory = false;  // whether the run was read from a run directory; otherwise it was read from a log
  std::map<CurveKey, Curve> curves;
  std::map<std::string, std::string> settings;  // from the JobSpec, or the arguments in the log
  nlohmann::json summary;                       // summary.json; null if there is none
  // Seconds that each worker spent in each phase, indexed by rank and phase.
  std::map<std::pair<int64_t, std::string>, double> phase_seconds;
  std::map<int64_t, double> wall_seconds;  // indexed by rank: time until the worker's last line
  // The results of the latest validation: those of worker 0, and those of the other workers for the same validation
  // whose files are in this directory. nullopt: there are none.
  std::optional<telemetry::ClassResults> validation;
  std::vector<Resumption> resumptions;
  std::vector<LogMessage> messages;
  uint64_t messages_left_out = 0;
  std::vector<std::string> problems;  // missing, truncated or broken files, each with what is wrong and where

  // The names of all metrics that have values, sorted.
  [[nodiscard]] std::set<std::string> metrics() const;
  [[nodiscard]] const Curve* curve(const CurveKey& key) const;  // returns null if there is no such curve
  // The ranks whose workers have this metric, in order.
  [[nodiscard]] std::vector<int64_t> workers_with(const std::string& metric, bool of_epochs) const;
  [[nodiscard]] std::optional<double> setting_number(const std::string& key) const;
  // A number in summary.json; nullopt if the file does not have it.
  [[nodiscard]] std::optional<double> summary_number(const char* key) const;
};

// Reads a run directory, or a log of dtrain or of any version of MXNet. Reads as much as possible, in bounded memory:
// missing, truncated and broken files are listed in `problems`. Code::kNotFound: there is no such file or directory;
// kData: it is neither a run directory nor a training log.
Result<Run> read_run(const std::string& path);

// Calls read_run for each path. The runs get distinct names.
Result<std::vector<Run>> read_runs(const std::vector<std::string>& paths);

}  // namespace dtrain::observe
