// NDArray list files, as MXNet 0.12 to 1.9 write them: `.params`, `.states`, `mean.bin`. formats.md section 5.
//
// Files come from outside: whatever the bytes are, the answer is arrays or an Error of Code::kData that names the file,
// the place and the reason. Numbers are little-endian, as on every machine that dtrain runs on.
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

// An array of a file: float32, or uint8 for bytes that only travel in it. A shape without dimensions is MXNet's empty
// array (not a scalar) and has no values; otherwise there are element_count(shape) of them, row-major.
struct StoredArray {
  std::string name;  // empty in a list without names
  Shape shape;
  std::variant<std::vector<float>, std::vector<uint8_t>> values;
};

// The same, borrowed: what is written need not be copied first.
struct StoredArrayView {
  std::string name;
  Shape shape;
  std::variant<std::span<const float>, std::span<const uint8_t>> values;
};

// The bytes of a list file, arrays in version 2; and back. `bytes` may hold anything. Other versions, sparse arrays and
// other types are refused, naming the array.
std::string to_ndarray_bytes(std::span<const StoredArrayView> arrays);
Result<std::vector<StoredArray>> parse_ndarray_bytes(std::string_view bytes);

Result<std::vector<StoredArray>> read_stored_arrays(const std::string& path);
// Whole or not at all (base/file.h, also for what `fault` is).
Result<> write_stored_arrays(const std::string& path, std::span<const StoredArrayView> arrays,
                             AtomicFile::Fault fault = nullptr);

// The same for files of numbers alone: an array of another type is an Error.
Result<std::vector<NamedArray>> read_ndarray_file(const std::string& path);
Result<> write_ndarray_file(const std::string& path, std::span<const NamedArray> arrays,
                            AtomicFile::Fault fault = nullptr);

}  // namespace dtrain
