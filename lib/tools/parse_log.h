// `dtrain parse-log`: a training log as a table of epochs, as MXNet's tools/parse_log.py makes it.
#pragma once

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

// Which of the tool's two families of expressions.
enum class LogFamily {
  kUpTo11,  // 0.7 to 1.1: every metric of a set goes into one column
  kFrom12,  // 1.2 and later: a column for each metric name
};

// One row an epoch (printed from 1 on), in order of first appearance. Values of an epoch and column are averaged over
// all lines that match, also of several nodes; "nan" where there is none. Lines may hold anything. Code::kData: no line
// matches.
Result<std::string> parse_log(std::string_view log, LogFamily family, const ParseLogOptions& options);

// The newer family; the older one for a log in which that finds nothing.
Result<std::string> parse_log(std::string_view log, const ParseLogOptions& options);

}  // namespace dtrain::tools
