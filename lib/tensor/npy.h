// NumPy's file format for arrays (.npy, version 1.0), as numpy.load reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensor/shape.h"

namespace dtrain {

// The bytes that precede the values of a float32 array: little-endian, row-major. The values follow immediately.
std::string npy_header(const Shape& shape);

// The bytes of the values.
std::string_view npy_values(std::span<const float> values);

}  // namespace dtrain
