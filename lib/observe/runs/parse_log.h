// `dtrain parse-log`: turns a training log into a table of epochs, as MXNet's tools/parse_log.py does.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::observe {

struct ParseLogOptions {
  enum class Format { kMarkdown, kNone };
  Format format = Format::kMarkdown;
  // Empty: accuracy or, if the log lacks it, the only metric of the log, whatever its name.
  std::vector<std::string> metric_names = {};
};

// The table of one log or of several logs. The content of lines is not trusted; memory depends only on the number of
// epochs and of metrics: some 24 bytes for each pair of them.
//
// One row per epoch (printed from 1 on), in order of first appearance. A value is the mean over all lines for this
// epoch and this metric, including lines of several nodes, and "nan" if there is none.
class LogTable {
 public:
  static constexpr size_t kEpochsMax = 1'000'000;
  static constexpr size_t kMetricsMax = 100;

  explicit LogTable(ParseLogOptions options);
  ~LogTable();

  // Code::kData: there are more than kEpochsMax epochs, or more than kMetricsMax metrics.
  Result<> add(std::string_view line);
  // Has the columns of MXNet 1.2's program if the log has the requested metrics, or accuracy if none was requested;
  // otherwise the columns of its older programs. Code::kData: no line matches, the log lacks a requested metric, or no
  // metric was requested and the log has several, none of them accuracy.
  [[nodiscard]] Result<std::string> text() const;

 private:
  class Values;
  const ParseLogOptions options_;
  std::unique_ptr<Values> values_;
};

struct ParsedLogs {
  std::string table;
  std::vector<std::string> notes;  // notes about lines that were too long
};
// Reads the files line by line.
Result<ParsedLogs> parse_logs(const std::vector<std::string>& files, const ParseLogOptions& options);

}  // namespace dtrain::observe
