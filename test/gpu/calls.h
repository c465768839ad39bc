// Where the time of a training step goes, call by call.
#pragma once

#include "machine.h"
#include "parts.h"

namespace dtrain::gpu {

struct CallsOptions {
  std::string network = "resnet-50";
  int64_t batch = 256;
  Shape image = {3, 224, 224};
  int64_t classes = 1000;
  int steps = 5;
};

// Measures in float16. The part's text is the total; its numbers hold all calls and a table of the slowest ones.
Result<Outcome> time_calls(Machine& machine, const CallsOptions& options);

}  // namespace dtrain::gpu
