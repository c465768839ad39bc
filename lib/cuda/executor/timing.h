// How the time of a training step is spent, call by call, for measurements (test/gpu).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::cuda {

// One call of a program: a kernel, a convolution, or a group of kernels that belong together.
struct TimedCall {
  std::string name;  // name of the node, or of work done for all weights at once
  bool backward = false;
  double ms = 0;      // median over several steps
  int64_t bytes = 0;  // size of the tensors that it reads and writes, each counted once; 0 if unknown
};

}  // namespace dtrain::cuda
