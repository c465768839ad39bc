#pragma once

#include <memory>

#include "exec/executor.h"

namespace dtrain::exec {

// The reference in float64, for tests: parameters and the interface's tensors stay float32, but the arithmetic is
// double.
std::unique_ptr<Backend> make_reference_backend_f64();

}  // namespace dtrain::exec
