// TOML files of flags (--config, presets). Each key is the name of a flag; its value is the flag's value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct TomlSetting {
  std::string key;
  std::string value;                  // the value in command-line form: "1" for true, "5,10,20" for a list
  std::vector<std::string> elements;  // the elements of a list; otherwise just the value
  int64_t line = 0;
};

// The settings in the order of their keys. Code::kUsage, with `name` and the line, for a text that is not TOML or that
// contains tables or dates.
Result<std::vector<TomlSetting>> parse_toml(std::string_view text, const std::string& name);

}  // namespace dtrain::job
