#include "tensor/npy.h"

#include <fmt/core.h>

namespace dtrain {

std::string npy_header(const Shape& shape) {
  // The values must begin at a multiple of 64 bytes. Before them are 10 bytes, the description, blanks, and a newline.
  constexpr size_t kBefore = 10, kAlignment = 64;
  std::string description = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", to_string(shape));
  const size_t used = kBefore + description.size() + 1;
  description.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  description += '\n';
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(description.size() & 0xff);
  header += static_cast<char>(description.size() >> 8);
  return header + description;
}

std::string_view npy_values(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace dtrain
