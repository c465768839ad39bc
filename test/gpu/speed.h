// How fast a network learns, with images that are no pictures.
#pragma once

#include "learner.h"
#include "machine.h"

namespace dtrain::gpu {

struct Speed {
  double images_per_s = 0;          // of the median step, its batch on the device before it begins: as peers measure
  double images_per_s_brought = 0;  // of the median of bringing float32 images from the host and the step, one by one
  double slowest_share = 0;         // (slowest - median) / median of the steps
  int64_t device_bytes = 0;         // taken from the device at the end of the steps, what libraries took included
  int64_t planned_bytes = 0;        // of them, by the executor's plan (exec::Executor::memory_bytes)
};

// Numbers and labels for a batch of the course, drawn.
struct Images {
  std::vector<float> data, labels;
};
Images random_images(const Course& course, int64_t classes);

struct SpeedOptions {
  int warm_up = 10, steps = 40;
};

Result<Speed> measure_speed(Machine& machine, const Course& course, const SpeedOptions& options = {});

}  // namespace dtrain::gpu
