// Finds the arrays of an NDArray list file of any version (MXNet up to 1.9). See docs/formats.md, "NDArray files".
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

// The types by their numbers in the file.
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

// The layout of an array. A sparse array's layout is reported instead of its type.
enum class StoredLayout : int32_t { kDense, kRowSparse, kCsr };

// One array. A shape without dimensions is MXNet's empty array, which has no bytes; a scalar (version 3) has the shape
// {1}. The bytes of a dense array are its elements, row-major.
struct StoredEntry {
  std::string name;  // empty if the list has no names
  Shape shape;
  StoredType type = StoredType::kFloat32;
  StoredLayout layout = StoredLayout::kDense;
  std::string_view bytes;  // a part of the file's bytes

  // The name of the type, such as "float16", or for a sparse array of the layout, such as "row_sparse".
  [[nodiscard]] std::string_view type_name() const;
};

// `bytes` may be anything: the function never reads past its end, and never allocates memory according to a size that
// the file claims. Files with more than 2^18 arrays or names of more than 4,096 bytes are refused. Code::kData, with
// the array's number and the reason.
Result<std::vector<StoredEntry>> find_stored_arrays(std::string_view bytes);

}  // namespace dtrain
