// The types in which everything is checked.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "exec/executor.h"

namespace dtrain::gpu {

struct Mode {
  const char* name;
  Type type;
  bool tf32;

  [[nodiscard]] exec::Options options(exec::Options options) const {
    options.dtype = type;
    options.tf32 = tf32;
    return options;
  }
};
constexpr std::array<Mode, 4> kModes = {{{"float32", Type::kFloat32, false},
                                         {"tf32", Type::kFloat32, true},
                                         {"float16", Type::kFloat16, false},
                                         {"bfloat16", Type::kBfloat16, false}}};

inline Mode mode_of(const std::string& name) {
  return *std::ranges::find_if(kModes, [&](const Mode& mode) { return name == mode.name; });
}

}  // namespace dtrain::gpu
