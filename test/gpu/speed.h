// Measures how fast a network learns, on random images.
#pragma once

#include "learner.h"
#include "machine.h"

namespace dtrain::gpu {

struct Speed {
  // For the median step, with its batch on the device beforehand, as the peers measure.
  double images_per_s = 0;
  // For the median of a step and the copying of its float32 images from the host, one after the other.
  double images_per_s_brought = 0;
  double slowest_share = 0;   // (slowest - median) / median of the steps
  int64_t device_bytes = 0;   // memory in use on the device after the steps, including the libraries'
  int64_t planned_bytes = 0;  // the part of it that the executor planned (exec::Executor::memory_bytes)
};

// Random numbers and labels for a batch of the course.
struct Images {
  std::vector<float> data, labels;
};
Images random_images(const Course& course, int64_t classes);

struct SpeedOptions {
  int warm_up = 10, steps = 40;
};

Result<Speed> measure_speed(Machine& machine, const Course& course, const SpeedOptions& options = {});

}  // namespace dtrain::gpu
