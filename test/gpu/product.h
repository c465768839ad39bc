// The path that dtrain itself takes and the other stages avoid: the module that it loads, batches of pixels, and its
// trainer.
#pragma once

#include <functional>
#include <vector>

#include "machine.h"
#include "parts.h"
#include "settings.h"
#include "telemetry/timeline.h"

namespace dtrain::gpu {

// A LeNet step from uint8 pixels, computed by the module that dtrain would load, against the reference's step on the
// floats that the pixels stand for; in float32 and float16.
Result<Outcome> step_from_pixels(Machine& machine);
// Trains some epochs in float16 with the trainer, the module's devices and optimizer, the loader's batches of pixels
// and a dynamic loss scale: on the digits in the directory with images or, without a directory, on generated patterns.
struct Product {
  std::string network = "lenet";
  int64_t batch = 64, epochs = 2;
  int64_t patterns = 4096;
  double accuracy_min = 0.95;
};
Result<Outcome> train_by_trainer(Machine& machine, const Settings& settings, const Product& product);
// Trains in the same way on generated patterns, with a trace of `steps` steps, and returns what `judge` says about the
// rows. Their names are gone afterwards.
using JudgeTrace = std::function<Outcome(const std::vector<telemetry::TimelineRow>&)>;
Result<Outcome> trace_by_trainer(Machine& machine, const Product& product, uint64_t steps, const JudgeTrace& judge);

}  // namespace dtrain::gpu
