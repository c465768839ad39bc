// What a training shows of its tensors to somebody outside, such as the writer of TensorBoard's files. The step loop calls
// these functions and waits for them. What they are given is valid during the call.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/loading/loader.h"

namespace dtrain::train {

struct ShownTensor {
  enum class Kind { kWeight, kGradient, kStatistic };
  Kind kind = Kind::kWeight;
  const std::string& name;  // of the parameter
  std::span<const float> values;
};

// Absent functions are not called. `step`: updates since the start of the run, as in telemetry::Record.
struct Views {
  // Before the first step of this process.
  std::function<void(uint64_t step, const data::LoadedBatch& batch)> first_batch = nullptr;
  // For each weight, gradient and statistic of the first device, after the steps that --monitor prints.
  std::function<void(uint64_t step, const ShownTensor& tensor)> tensor = nullptr;
};

}  // namespace dtrain::train
