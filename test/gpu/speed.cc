#include "speed.h"

#include <algorithm>
#include <chrono>

#include "base/random.h"
#include "graph/models/models.h"

namespace dtrain::gpu {

Images random_images(const Course& course, int64_t classes) {
  RandomStream random(1, Use::kSynthetic);
  Images images;
  images.data.resize(static_cast<size_t>(course.options.batch_size * element_count(course.options.inputs[0].shape)));
  // Only some thousand different numbers: drawing 40 million would take longer than the measurement.
  constexpr size_t kDrawn = 4099;
  for (size_t i = 0; i < images.data.size(); i++) {
    images.data[i] = i < kDrawn ? static_cast<float>(random.normal()) : images.data[i % kDrawn];
  }
  for (int64_t i = 0; i < course.options.batch_size; i++) {
    images.labels.push_back(static_cast<float>(random.below(classes)));
  }
  return images;
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

struct StepSeconds {
  double bringing = 0, step = 0;
};

// Timed by the host's clock: a step is one graph, and the call returns when the device has completed it. An event would
// leave out some microseconds for the launch, which a run pays as well.
Result<StepSeconds> timed_step(Machine& machine, Learner& learner, const exec::Batch& batch) {
  constexpr double kRate = 1e-3;  // small enough that nothing is learned and nothing becomes infinite
  const Clock::time_point begin = Clock::now();
  DT_TRY_VOID(learner.stage(batch));
  DT_TRY_VOID(machine.synchronise());
  const Clock::time_point brought = Clock::now();
  DT_TRY_VOID(learner.step(kRate));
  return StepSeconds{seconds(begin, brought), seconds(brought, Clock::now())};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

Result<Speed> measure_speed(Machine& machine, const Course& course, const SpeedOptions& options) {
  const int64_t free_before = machine.memory().free_bytes;
  DT_TRY(const auto learner, Learner::create(machine.fast_backend(), course));
  DT_TRY(const graph::Shapes shapes, graph::infer_shapes(course.graph, course.options.inputs[0].shape));
  const Images images = random_images(course, shapes.heads[0].outputs);
  const auto batch = exec::Batch::of(images.data, images.labels);
  for (int step = 0; step < options.warm_up; step++) DT_TRY_VOID(timed_step(machine, *learner, batch));
  std::vector<double> steps, all;
  for (int step = 0; step < options.steps; step++) {
    DT_TRY(const StepSeconds seconds, timed_step(machine, *learner, batch));
    steps.push_back(seconds.step);
    all.push_back(seconds.bringing + seconds.step);
  }
  const int64_t free_after = machine.memory().free_bytes;
  const double middle = median(steps);
  const auto images_in_step = static_cast<double>(course.options.batch_size);
  return Speed{.images_per_s = images_in_step / middle,
               .images_per_s_brought = images_in_step / median(all),
               .slowest_share = (std::ranges::max(steps) - middle) / middle,
               .device_bytes = free_before - free_after,
               .planned_bytes = static_cast<int64_t>(learner->executor().memory_bytes())};
}

}  // namespace dtrain::gpu
