// Finds the arrays in the bytes of an NDArray list file of any version (MXNet up to 1.9). See docs/formats.md, "NDArray
// files".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain {

inline constexpr uint64_t kNdarrayListMagic = 0x112;      // the first word of a file
inline constexpr uint32_t kNdarrayVersion2 = 0xF993fac9;  // the first word of an array of version 2

// The element types; the values are the numbers in the file.
enum class StoredType : int32_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kUint8,
  kInt32,
  kInt8,
  kInt64,
  kBool,
  kInt16,
  kUint16,
  kUint32,
  kUint64,
  kBfloat16,
};

// How an array is stored. For a sparse array, messages name the layout instead of the type.
enum class StoredLayout : int32_t { kDense, kRowSparse, kCsr };

// One array. An array with an empty shape is MXNet's empty array, which has no bytes; a scalar (version 3) gets the
// shape {1}. The bytes of a dense array are its elements in row-major order.
struct StoredEntry {
  std::string name;  // the array's name; empty if the list has no names
  Shape shape;
  StoredType type = StoredType::kFloat32;
  StoredLayout layout = StoredLayout::kDense;
  std::string_view bytes;  // a view of a part of the file's bytes

  // The name of the type, such as "float16"; for a sparse array, the name of the layout, such as "row_sparse".
  [[nodiscard]] std::string_view type_name() const;
};

// `bytes` may be arbitrary: the function never reads beyond the end, and never allocates memory for a size that the
// file claims. Files with more than 2^18 arrays, or with names of more than 4,096 bytes, are refused. Code::kData; the
// message contains the number of the array and the reason.
Result<std::vector<StoredEntry>> find_stored_arrays(std::string_view bytes);

}  // namespace dtrain
