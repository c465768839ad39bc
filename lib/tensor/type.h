// The types in which the tensors of a network are stored and multiplied. Sums, learned arrays, statistics and the
// softmax are always float32.
#pragma once

#include <cstdint>

namespace dtrain {

enum class Type : int32_t { kFloat32, kFloat16, kBfloat16 };

constexpr int64_t bytes_of(Type type) {
  return type == Type::kFloat32 ? 4 : 2;
}

constexpr const char* type_name(Type type) {
  switch (type) {
    case Type::kFloat32: return "float32";
    case Type::kFloat16: return "float16";
    case Type::kBfloat16: return "bfloat16";
  }
  return "?";
}

}  // namespace dtrain
