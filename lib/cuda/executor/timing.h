// Where the time of a training step goes: its work call by call, for measurements (test/gpu).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::cuda {

// One call of a program: a kernel, a convolution, or what belongs together.
struct TimedCall {
  std::string name;  // of the node, or of what is done for all weights at once
  bool backward = false;
  double ms = 0;      // the median of several steps
  int64_t bytes = 0;  // of the tensors that it reads and writes, each once; 0 where nobody counted them
};

}  // namespace dtrain::cuda
