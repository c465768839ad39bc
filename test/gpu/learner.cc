#include "learner.h"

#include "cuda/executor/device_executor.h"
#include "cuda/optimizer.h"

namespace dtrain::gpu {

Learner::Learner(std::unique_ptr<exec::Executor> executor, std::unique_ptr<optim::ArrayOptimizer> optimizer,
                 int64_t batch, const train::LossScale& scale)
    : executor_(std::move(executor)), optimizer_(std::move(optimizer)), batch_(batch), scale_(scale) {
  std::vector<optim::LearnedArray> arrays;
  for (const ParameterSpan& p : executor_->device_parameters().parameters) {
    arrays.push_back({optim::multipliers_of(p.kind), p.weight, p.gradient});
  }
  optimizer_->bind({arrays});
}

Result<> Learner::start() {
  DT_TRY_VOID(optim::initialize({}, executor_->parameters(), 1));
  return copy_to_device(executor_->parameters(), executor_->device_parameters());
}

Result<std::unique_ptr<Learner>> Learner::create(exec::Backend& backend, const Course& course) {
  exec::Options options = course.options;
  options.parameters_on_device = true;
  DT_TRY(std::unique_ptr<exec::Executor> executor, backend.compile(course.graph, options));
  const bool scales = options.dtype == Type::kFloat16;
  DT_TRY(train::LossScale scale, train::LossScale::parse(scales ? "dynamic" : "none"));
  scale.restore({.scale = course.loss_scale});
  executor->set_loss_scale(scale.state());
  executor->skip_bad_steps(scale.is_dynamic());
  DT_TRY(std::unique_ptr<optim::ArrayOptimizer> optimizer, cuda::make_device_optimizer(*executor, course.optimizer));
  std::unique_ptr<Learner> learner(new Learner(std::move(executor), std::move(optimizer), options.batch_size, scale));
  DT_TRY_VOID(learner->start());
  return learner;
}

exec::GradientReady Learner::updates(double learning_rate) {
  return [this, learning_rate](size_t) -> Result<> {
    optimizer_->search(0);
    optimizer_->update(0, {.learning_rate = learning_rate, .gradient_scale = 1.0 / static_cast<double>(batch_)});
    return {};
  };
}

Result<> Learner::stage(const exec::Batch& batch) {
  return executor_->forward(batch, exec::no_wait);
}

Result<> Learner::step(double learning_rate) {
  DT_TRY_VOID(executor_->backward(updates(learning_rate)));
  DT_TRY_VOID(executor_->finish());
  const bool scale_falls = scale_.can_fall();
  scale_.restore(executor_->loss_scale());
  if (executor_->skipped_update() && !scale_falls) return fail(Code::kInternal, "a gradient is not finite");
  return {};
}

Result<std::vector<cuda::TimedCall>> Learner::time_calls(const exec::Batch& batch, int steps) {
  constexpr double kRate = 1e-3;
  return dynamic_cast<cuda::DeviceExecutor&>(*executor_).time_calls(batch, updates(kRate), steps);
}

}  // namespace dtrain::gpu
