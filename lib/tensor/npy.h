// NumPy's file format for arrays (.npy, version 1.0), which numpy.load reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensor/shape.h"

namespace dtrain {

// The bytes before the values of an array of float32, little-endian, row-major. The values must follow immediately.
std::string npy_header(const Shape& shape);

// The bytes of the values.
std::string_view npy_values(std::span<const float> values);

}  // namespace dtrain
