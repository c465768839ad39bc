// The way of the product, which the other stages go round: the module that it loads, batches of pixels, its trainer.
#pragma once

#include "machine.h"
#include "parts.h"
#include "settings.h"

namespace dtrain::gpu {

// A step of lenet from uint8 pixels, by the module that a dtrain would load, against the reference's on the numbers
// that these pixels stand for; in float32 and float16.
Result<Outcome> step_from_pixels(Machine& machine);
// Some epochs in float16 by the trainer, with the module's devices and optimizer, the loader's batches of pixels and a
// dynamic loss scale: on the digits in the folder with pictures, or without one on drawn patterns.
struct Product {
  std::string network = "lenet";
  int64_t batch = 64, epochs = 2;
  int64_t patterns = 4096;
  double accuracy_min = 0.95;
};
Result<Outcome> train_by_trainer(Machine& machine, const Settings& settings, const Product& product);

}  // namespace dtrain::gpu
