// The shape of a tensor, with the outermost dimension first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

using Shape = std::vector<int64_t>;

// The number of elements: the product of the dimensions; 1 for a scalar (no dimensions).
int64_t element_count(const Shape& shape);
// "(64, 3, 28, 28)", as Python prints a tuple: "(10,)" for one dimension.
std::string to_string(const Shape& shape);

}  // namespace dtrain
