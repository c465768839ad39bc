// NDArray list files: `.params`, `.states`, `mean.bin`. Reads the files of MXNet up to 1.9, and writes the form of
// MXNet 0.12 to 1.9. See docs/formats.md, "NDArray files".
//
// Files may contain any bytes: the result is the arrays, or an Error of Code::kData with the position and the reason.
// Errors of functions that read a file also name the file. Numbers are little-endian, as on every host that dtrain
// supports.
#pragma once

#include <cstdint>
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

// One array of a file: float32, or uint8 for bytes that are stored as such. A shape without dimensions is MXNet's empty
// array (not a scalar) and has no values. Otherwise there are element_count(shape) values, row-major.
struct StoredArray {
  std::string name;  // empty if the list has no names
  Shape shape;
  std::variant<std::vector<float>, std::vector<uint8_t>> values;
};

// The same with borrowed values, so that arrays can be written without a copy.
struct StoredArrayView {
  std::string name;
  Shape shape;
  std::variant<std::span<const float>, std::span<const uint8_t>> values;
};

// Converts arrays to the bytes of a list file, with arrays of version 2, and back. `bytes` may be anything, with arrays
// of all versions. float64, float16 and bfloat16 become float32: float64 is rounded to nearest, the others are exact.
// Sparse arrays and those of other types are rejected with an Error that names them.
std::string to_ndarray_bytes(std::span<const StoredArrayView> arrays);
Result<std::vector<StoredArray>> parse_ndarray_bytes(std::string_view bytes);

Result<std::vector<StoredArray>> read_stored_arrays(const std::string& path);
// Writes the whole file or nothing; see base/file.h, also for `fault`.
Result<> write_stored_arrays(const std::string& path, std::span<const StoredArrayView> arrays,
                             AtomicFile::Fault fault = nullptr);

// The same for files that contain only float32 arrays. An array of another type is an Error.
Result<std::vector<NamedArray>> read_ndarray_file(const std::string& path);
Result<> write_ndarray_file(const std::string& path, std::span<const NamedArray> arrays,
                            AtomicFile::Fault fault = nullptr);

}  // namespace dtrain
