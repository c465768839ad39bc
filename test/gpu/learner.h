// A network that learns on the machine's device. Forward, backward and update run there, and everything that is learned
// lies in the device's memory. From the third step on, a step is one CUDA graph.
#pragma once

#include <memory>

#include "cuda/executor/timing.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "optim/array_optimizer.h"
#include "optim/initializer.h"
#include "train/loss_scale.h"

namespace dtrain::gpu {

struct Course {
  graph::Graph graph;
  exec::Options options;  // the parameters' place is filled in
  optim::OptimizerSpec optimizer = {};
  double loss_scale = 128;  // the first one, for float16
};

class Learner {
 public:
  // `backend` must be that of CUDA.
  static Result<std::unique_ptr<Learner>> create(exec::Backend& backend, const Course& course);

  // The two halves of a step. stage() only copies the batch to the device; when step() returns, the device has
  // completed the step. In float16 the device skips a step whose gradients overflow, and halves the loss scale, as in a
  // run. Code::kInternal if a gradient is not finite in another type, or with the smallest scale.
  Result<> stage(const exec::Batch& batch);
  Result<> step(double learning_rate);
  exec::Executor& executor() { return *executor_; }
  // The calls of a step and their times (cuda/executor/timing.h). The learning rate is almost zero.
  Result<std::vector<cuda::TimedCall>> time_calls(const exec::Batch& batch, int steps);

 private:
  [[nodiscard]] exec::GradientReady updates(double learning_rate);
  Learner(std::unique_ptr<exec::Executor> executor, std::unique_ptr<optim::ArrayOptimizer> optimizer, int64_t batch,
          const train::LossScale& scale);
  Result<> start();

  std::unique_ptr<exec::Executor> executor_;
  std::unique_ptr<optim::ArrayOptimizer> optimizer_;
  int64_t batch_;
  train::LossScale scale_;
};

}  // namespace dtrain::gpu
