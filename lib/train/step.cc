#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "job/flags/flags.h"
#include "tensor/buckets.h"
#include "train/finite.h"

namespace dtrain::train {

namespace {

// The store's counters if the device decides which steps count, else null.
kvstore::OwnCounters* counters_if_device_decides(const StepParts& parts) {
  const bool leaves_out = parts.on_nan == job::OnNan::kSkip || parts.loss_scale.is_dynamic();
  kvstore::OwnCounters* const counters = parts.store.own_counters();
  const bool decides = leaves_out && parts.workers == 1 && parts.devices.size() == 1 && counters != nullptr &&
                       parts.devices.executor(0).skip_bad_steps(parts.loss_scale.is_dynamic());
  return decides ? counters : nullptr;
}

}  // namespace

StepRunner::StepRunner(StepParts parts)
    : parts_(std::move(parts)),
      on_device_(parts_.devices.parameters_on_device()),
      own_counters_(counters_if_device_decides(parts_)),
      limit_(summand_limit(parts_.workers * static_cast<uint32_t>(parts_.devices.size()))),
      wait_([this](size_t device, size_t bucket) {
        telemetry::Span span(timeline(), "wait for weights", "wait");
        span.with("bucket", bucket).with("step", step_);
        return time_call(device, times_.pull_wait, [&] { return parts_.store.wait_for_weights({bucket, device}); });
      }),
      ready_([this](size_t device, size_t bucket) { return on_bucket(device, bucket); }),
      bad_gradient_(parts_.devices.size()) {
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    parts_.devices.executor(device).set_gradient_limit(limit_);
  }
}

// Times a call to the store, which may update weights. Only calls on the first device's thread are counted.
template <class Call>
Result<> StepRunner::time_call(size_t device, double& into, const Call& call) {
  if (device != 0) return call();
  const SteadyTime begin = std::chrono::steady_clock::now();
  const double update_before = parts_.store.update_seconds();
  Result<> outcome = call();
  const double update = parts_.store.update_seconds() - update_before;
  times_.update += update;
  into += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() - update;
  return outcome;
}

// Times a pass through the network, excluding the calls to the store during the pass.
template <class Pass>
Result<> StepRunner::time_pass(double& into, const Pass& pass) {
  const auto in_calls = [this] { return times_.push + times_.pull_wait + times_.update; };
  const SteadyTime begin = std::chrono::steady_clock::now();
  const double calls_before = in_calls();
  Result<> outcome = pass();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  into += spent.count() - (in_calls() - calls_before);
  return outcome;
}

size_t StepRunner::end_of(size_t bucket) const {
  return bucket_end(parts_.bucket_begin, bucket, parts_.devices.parameters().parameters.size());
}

std::string StepRunner::gradient_fault(const std::string& layer) const {
  const std::string of_layer = layer.empty() ? "" : fmt::format(" of '{}'", layer);
  const std::string limit = std::isinf(limit_) ? "" : fmt::format(" or not below {:.3g}", limit_);
  return fmt::format("gradient{} is not finite{}", of_layer, limit);
}

Error StepRunner::not_finite(const std::string& what, const std::string& layer) const {
  return {Code::kInternal,
          fmt::format("step {}, rank {}: the {}, first in layer '{}'; {}, or skip such steps with --on-nan skip", step_,
                      parts_.rank, what, layer, kRemedyOfNotFinite),
          {}};
}

Result<> StepRunner::push(size_t device, size_t bucket) {
  telemetry::Span span(timeline(), "hand over gradients", "push");
  span.with("bucket", bucket).with("step", step_);
  return time_call(device, times_.push, [&] { return parts_.store.gradient_ready({bucket, device}, step_, samples_); });
}

// Pushes all gradients from the devices' own threads, because a collective operation may wait until all devices have
// called it.
Result<> StepRunner::push_all() {
  const auto of_device = [this](size_t device) -> Result<> {
    for (size_t bucket = parts_.bucket_begin.size(); bucket-- > 0;) DT_TRY_VOID(push(device, bucket));
    return {};
  };
  return parts_.devices.on_devices(std::ref(of_device));
}

Result<> StepRunner::on_bucket(size_t device, size_t bucket) {
  if (on_device_) return holds_back() ? Result<>{} : push(device, bucket);
  const std::string bad =
      train::bad_gradient(parts_.devices.parameters(device), parts_.bucket_begin[bucket], end_of(bucket), limit_);
  if (!holds_back()) {
    if (!bad.empty()) return tl::unexpected(not_finite(gradient_fault(), bad));
    return push(device, bucket);
  }
  if (bad_gradient_[device].empty()) bad_gradient_[device] = bad;
  return {};
}

const std::string* StepRunner::first_bad_gradient() const {
  const auto bad = std::find_if(bad_gradient_.begin(), bad_gradient_.end(), [](const auto& b) { return !b.empty(); });
  return bad == bad_gradient_.end() ? nullptr : &*bad;
}

bool StepRunner::overflowed() {
  if (!parts_.loss_scale.is_dynamic() || !parts_.devices.overflowed()) return false;
  if (!parts_.loss_scale.lower()) return false;
  parts_.log.info("step {} is skipped, because float16 overflowed; the loss scale is now {:g}", step_,
                  parts_.loss_scale.value());
  return true;
}

Result<> StepRunner::skip_step(const std::string& why) {
  if (!why.empty()) parts_.log.warn("step {} is skipped, because the {}", step_, why);
  if (own_counters_ != nullptr) {
    own_counters_->uncount_samples(samples_);
    return {};
  }
  DT_TRY_VOID(restore_statistics());
  return push_zero_gradients();
}

namespace {

// Calls visit(array) for the moving statistics of a view until it returns an Error: once if they are contiguous, else
// once per statistic.
template <class Visit>
Result<> visit_statistics(const ParameterView& view, const Visit& visit) {
  if (!view.all_statistics.empty()) return visit(view.all_statistics);
  for (const ParameterSpan& p : view.statistics) DT_TRY_VOID(visit(p.weight));
  return {};
}

}  // namespace

// Saves the moving statistics: the forward pass mixes the batch into them, and a NaN would stay there forever.
Result<> StepRunner::keep_statistics() {
  kept_statistics_.clear();
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    const ParameterView& view = parts_.devices.device_parameters(device);
    DT_TRY_VOID(visit_statistics(view, [&](std::span<const float> values) {
      const size_t begin = kept_statistics_.size();
      kept_statistics_.resize(begin + values.size());
      return read_array(view.device, values, std::span(kept_statistics_).subspan(begin));
    }));
  }
  return {};
}

Result<> StepRunner::restore_statistics() {
  std::span<const float> kept = kept_statistics_;
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    const ParameterView& view = parts_.devices.device_parameters(device);
    DT_TRY_VOID(visit_statistics(view, [&](std::span<float> values) {
      const std::span<const float> from = kept.first(values.size());
      kept = kept.subspan(values.size());
      return write_array(view.device, from, values);
    }));
  }
  return {};
}

// Pushes zero gradients with 0 samples for a step that is left out, because the round of the other workers waits for
// this worker. They then leave the step out too. A worker that is alone pushes nothing.
Result<> StepRunner::push_zero_gradients() {
  if (parts_.workers == 1) return {};
  samples_ = 0;
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    const ParameterView& host = parts_.devices.parameters(device);
    for (const ParameterSpan& p : host.parameters) std::fill(p.gradient.begin(), p.gradient.end(), 0.0F);
    const ParameterView& view = parts_.devices.device_parameters(device);
    if (view.device != nullptr) DT_TRY_VOID(view.device->write(host.all_gradients, view.all_gradients));
  }
  return push_all();
}

Result<bool> StepRunner::run(const data::LoadedBatch& batch, uint64_t step, const data::LoadedBatch* next) {
  step_ = step;
  samples_ = static_cast<uint32_t>(batch.count);
  for (std::string& bad : bad_gradient_) bad.clear();
  if (holds_back()) DT_TRY_VOID(keep_statistics());
  parts_.devices.set_loss_scale(parts_.loss_scale.value(), static_cast<uint32_t>(parts_.loss_scale.state().good_steps));
  if (announced_ != batch.serial) parts_.devices.announce({});
  DT_TRY_VOID(time_pass(times_.forward, [&] { return forward(batch); }));
  if (on_device_ && next != nullptr) parts_.devices.announce(*next);
  announced_ = next == nullptr ? 0 : next->serial;
  DT_TRY_VOID(time_pass(times_.backward, [&] { return compute(batch); }));
  return may_skip_steps() ? push_or_skip_step() : true;
}

Result<> StepRunner::forward(const data::LoadedBatch& batch) {
  DT_TRY_VOID(parts_.devices.forward(batch, wait_));
  if (parts_.tracer != nullptr) parts_.tracer->forward_done(step_);
  return {};
}

Result<> StepRunner::compute(const exec::Batch& input) {
  bad_loss_ = false;
  if (!on_device_) DT_TRY_VOID(check_loss(input));
  if (!bad_loss_) DT_TRY_VOID(parts_.devices.backward(ready_));
  if (!on_device_) return {};
  DT_TRY_VOID(check_loss(input));
  return check_devices();
}

Result<> StepRunner::check_loss(const exec::Batch& input) {
  size_t head = 0;
  while (head < parts_.devices.heads() && all_finite(parts_.devices.result(head))) head++;
  bad_loss_ = head < parts_.devices.heads();
  if (!bad_loss_ || parts_.on_nan == job::OnNan::kSkip) return {};
  const exec::Options compiled{.batch_size = samples_, .inputs = parts_.inputs};
  const ParameterView& view = parts_.devices.parameters();
  DT_TRY_VOID(copy_to_host(parts_.devices.device_parameters(), view));
  return tl::unexpected(not_finite(
      "loss is not finite", bad_layer(parts_.graph, compiled, view, input, {head, parts_.devices.result(head)})));
}

// Checks values after a step whose gradients the host could not see.
Result<> StepRunner::check_devices() {
  if (holds_back() && parts_.devices.left_out_update()) {
    // The gradients that this worker handed over were finite, so their sum overflowed.
    return fail(Code::kInternal,
                "step {}, rank {}: the sum of the devices' gradients was not finite in an earlier step, and the "
                "weights have not changed since then",
                step_, parts_.rank);
  }
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    exec::Executor& executor = parts_.devices.executor(device);
    if (!executor.has_bad_gradient() && !executor.left_out_update()) continue;
    DT_TRY(bad_gradient_[device], bad_gradient_on(device));
  }
  const std::string* bad = first_bad_gradient();
  return bad == nullptr || may_skip_steps() ? Result<>{} : tl::unexpected(not_finite(gradient_fault(), *bad));
}

// Finds the layer of a bad gradient. Takes as long as a copy of all gradients. Never returns an empty string, even if
// it finds no bad value: the device may have found the value in a sum that the host cannot see.
Result<std::string> StepRunner::bad_gradient_on(size_t device) {
  const ParameterView& there = parts_.devices.device_parameters(device);
  const ParameterView& host = parts_.devices.parameters(device);
  DT_TRY_VOID(there.device->read(there.all_gradients, host.all_gradients));
  const std::string name = train::bad_gradient(host, 0, host.parameters.size(), limit_);
  return name.empty() ? "?" : name;
}

// Pushes the gradients that were held back, or skips the step.
Result<bool> StepRunner::push_or_skip_step() {
  const std::string* bad = first_bad_gradient();
  if (!bad_loss_ && bad == nullptr) {
    parts_.loss_scale.good_step();
    if (holds_back()) DT_TRY_VOID(push_all());
    return true;
  }
  if (!bad_loss_ && overflowed()) {
    DT_TRY_VOID(skip_step(""));
    return false;
  }
  if (parts_.on_nan == job::OnNan::kFail) return tl::unexpected(not_finite(gradient_fault(), *bad));
  DT_TRY_VOID(skip_step(bad_loss_ ? "loss is not finite" : gradient_fault(*bad)));
  return false;
}

Result<> StepRunner::wait_for_weights() {
  for (size_t bucket = 0; bucket < parts_.bucket_begin.size(); bucket++) {
    for (size_t device = 0; device < parts_.devices.size(); device++) DT_TRY_VOID(wait_(device, bucket));
  }
  return {};
}

}  // namespace dtrain::train
