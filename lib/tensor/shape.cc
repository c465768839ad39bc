#include "tensor/shape.h"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>

namespace dtrain {

int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string to_string(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace dtrain
