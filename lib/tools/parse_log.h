// `dtrain parse-log`: turns a training log into a table of epochs, as MXNet's tools/parse_log.py does.
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

// Which version's expressions are used; the tool has two families of them.
enum class LogFamily {
  kUpTo11,  // 0.7 to 1.1: all metrics of a set share one column
  kFrom12,  // 1.2 and later: one column per metric name
};

// One row per epoch (printed from 1 on), in order of first appearance. A value is the mean over all matching lines,
// also of several nodes, and "nan" if there is none. Lines may contain anything. Code::kData: no line matches.
Result<std::string> parse_log(std::string_view log, LogFamily family, const ParseLogOptions& options);

// Uses the newer family if the log names one of the metrics as it expects, else the older one.
Result<std::string> parse_log(std::string_view log, const ParseLogOptions& options);

}  // namespace dtrain::tools
