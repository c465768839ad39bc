// The tables of parse-log, of logs that are texts.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "observe/runs/parse_log.h"

namespace dtrain::test {

inline void add_text(std::string_view log, observe::LogTable& table) {
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    (void)table.add(line);
    log.remove_prefix(std::min(log.size(), line.size() + 1));
  }
}

inline Result<std::string> parse_log(std::string_view log, const observe::ParseLogOptions& options) {
  observe::LogTable table(options);
  add_text(log, table);
  return table.text();
}

}  // namespace dtrain::test
