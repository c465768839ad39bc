// The files of configs/presets, kept in the program: a preset means the same wherever dtrain is started from.
#pragma once

#include <span>
#include <string_view>

namespace dtrain::job {

struct Preset {
  std::string_view name;
  std::string_view toml;
};

// Those of this version.
std::span<const Preset> presets();

}  // namespace dtrain::job
