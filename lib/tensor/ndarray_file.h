// NDArray list files: `.params`, `.states`, `mean.bin`. Reads the files of all versions of MXNet up to 1.9, and writes
// the format of MXNet 0.12 to 1.9. See docs/formats.md, "NDArray files".
//
// A file may contain arbitrary bytes: the result is either the arrays, or an Error with Code::kData, the position and
// the reason. If a function reads a file, its error also contains the file's name. Numbers are little-endian, as on
// every host that dtrain supports.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tensor/parameters.h"
#include "tensor/shape.h"

namespace dtrain {

// One array of a file: float32, or uint8 if bytes were stored. An array with an empty shape is MXNet's empty array (not
// a scalar) and has no values. Any other array has element_count(shape) values, in row-major order.
struct StoredArray {
  std::string name;  // the array's name; empty if the list has no names
  Shape shape;
  std::variant<std::vector<float>, std::vector<uint8_t>> values;
};

// Like StoredArray, but does not own the values, so that arrays can be written without copying them.
struct StoredArrayView {
  std::string name;
  Shape shape;
  std::variant<std::span<const float>, std::span<const uint8_t>> values;
};

// Convert arrays to the bytes of a list file, and back. Arrays are written in version 2; `bytes` may be arbitrary, and
// may contain arrays of all versions. float64, float16 and bfloat16 are converted to float32: float64 values are
// rounded to the nearest value, the others are exact. Sparse arrays, and arrays of other types, are rejected with an
// Error that names them.
std::string to_ndarray_bytes(std::span<const StoredArrayView> arrays);
// Passes the same bytes on in order, piece by piece, without a copy of the values. Ends with the first error of `sink`.
Result<> to_ndarray_bytes(std::span<const StoredArrayView> arrays,
                          const std::function<Result<>(std::string_view piece)>& sink);
Result<std::vector<StoredArray>> parse_ndarray_bytes(std::string_view bytes);

Result<std::vector<StoredArray>> read_stored_arrays(const std::string& path);
// Writes either the whole file or nothing. See base/file.h, which also describes `fault`.
Result<> write_stored_arrays(const std::string& path, std::span<const StoredArrayView> arrays,
                             AtomicFile::Fault fault = nullptr);

// Like the functions above, but for files that contain only float32 arrays. An array of another type is an Error.
Result<std::vector<NamedArray>> read_ndarray_file(const std::string& path);
Result<> write_ndarray_file(const std::string& path, std::span<const NamedArray> arrays,
                            AtomicFile::Fault fault = nullptr);

}  // namespace dtrain
