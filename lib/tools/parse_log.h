// `dtrain parse-log`: turns a training log into a table of epochs, as MXNet's tools/parse_log.py does.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::tools {

struct ParseLogOptions {
  enum class Format { kMarkdown, kNone };
  Format format = Format::kMarkdown;
  std::vector<std::string> metric_names = {"accuracy"};
};

// Which version's expressions are used; the tool has two families of them.
enum class LogFamily {
  kUpTo11,  // 0.7 to 1.1: all metrics of a set share one column
  kFrom12,  // 1.2 and later: one column per metric name
};

// The table of one log, or of several. Lines may contain anything; memory grows with the number of epochs alone.
//
// One row per epoch (printed from 1 on), in order of first appearance. A value is the mean over all matching lines, also
// of several nodes, and "nan" if there is none.
class LogTable {
 public:
  static constexpr size_t kEpochsMax = 1'000'000;

  explicit LogTable(ParseLogOptions options);
  ~LogTable();

  // Code::kData: there are more than kEpochsMax epochs.
  Result<> add(std::string_view line);
  // Uses the newer family if the log names one of the metrics as it expects, else the older one. Code::kData: no line
  // matches, or metrics other than the default were asked for and the log has none of them.
  [[nodiscard]] Result<std::string> text() const;
  [[nodiscard]] Result<std::string> text(LogFamily family) const;

 private:
  class Family;
  const ParseLogOptions options_;
  std::unique_ptr<Family> up_to_11_, from_12_;
};

struct ParsedLogs {
  std::string table;
  std::vector<std::string> notes;  // of lines that were too long
};
// Reads the files line by line.
Result<ParsedLogs> parse_logs(const std::vector<std::string>& files, const ParseLogOptions& options);

}  // namespace dtrain::tools
