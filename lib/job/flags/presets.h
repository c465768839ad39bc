// The files in configs/presets, compiled into the program, so that --preset works in every directory.
#pragma once

#include <span>
#include <string_view>

namespace dtrain::job {

struct Preset {
  std::string_view name;
  std::string_view toml;
};

// All presets.
std::span<const Preset> presets();

}  // namespace dtrain::job
