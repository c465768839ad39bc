// TOML files of flags (--config, presets): keys are names of flags, values what stands behind them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct TomlSetting {
  std::string key;
  std::string value;                  // as on a command line: true is "1", a list "5,10,20"
  std::vector<std::string> elements;  // of a list, one by one; else the value alone
  int64_t line = 0;
};

// In the order of the keys. Code::kUsage with `name` and line: what is no TOML, tables, dates.
Result<std::vector<TomlSetting>> parse_toml(std::string_view text, const std::string& name);

}  // namespace dtrain::job
