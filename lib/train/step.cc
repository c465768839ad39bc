#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "job/flags/flags.h"
#include "tensor/buckets.h"
#include "train/finite.h"

namespace dtrain::train {

namespace {

// If the devices can decide whether a step counts, makes them do so and returns the store's interface for it; otherwise
// returns null. They decide if a step may be left out and the parameters are on the devices.
kvstore::DeviceDecisions* begin_decisions(const StepParts& parts) {
  const bool leaves_out = parts.on_nan == job::OnNan::kSkip || parts.loss_scale.is_dynamic();
  if (!leaves_out || !parts.devices.parameters_on_device()) return nullptr;
  kvstore::DeviceDecisions* const decisions = parts.store.device_decisions();
  DT_CHECK(decisions != nullptr, "the parameters are on the devices, but the store is not for such devices");
  parts.devices.skip_bad_steps(parts.loss_scale.is_dynamic());
  decisions->decide_on_devices();
  return decisions;
}

std::vector<ParameterView> views_of(exec::DeviceGroup& devices) {
  std::vector<ParameterView> views;
  for (size_t device = 0; device < devices.size(); device++) views.push_back(devices.parameters(device));
  return views;
}

}  // namespace

StepRunner::StepRunner(StepParts parts)
    : parts_(std::move(parts)),
      on_device_(parts_.devices.parameters_on_device()),
      views_(views_of(parts_.devices)),
      decisions_(begin_decisions(parts_)),
      limit_(on_device_ ? std::numeric_limits<float>::infinity()
                        : summand_limit(parts_.workers * static_cast<uint32_t>(parts_.devices.size()))),
      wait_([this](size_t device, size_t bucket) {
        telemetry::Span span(timeline(), "wait for weights", "wait");
        span.with("bucket", bucket).with("step", step_.number);
        return time_call(device, times_.pull_wait, [&] { return parts_.store.wait_for_weights({bucket, device}); });
      }),
      ready_([this](size_t device, size_t bucket) { return on_bucket(device, bucket); }),
      sum_(parts_.devices.size()),
      bad_gradient_(parts_.devices.size()),
      devices_keep_statistics_(holds_back() && parts_.devices.keep_statistics()) {}

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
  return bucket_end(parts_.bucket_begin, bucket, views_.front().parameters.size());
}

std::string StepRunner::gradient_fault(const std::string& layer) const {
  const std::string of_layer = layer.empty() ? "" : fmt::format(" of '{}'", layer);
  const std::string limit = std::isinf(limit_) ? "" : fmt::format(" or not below {:.3g}", limit_);
  return fmt::format("gradient{} is not finite{}", of_layer, limit);
}

Error StepRunner::not_finite(const std::string& what, const std::string& layer) const {
  return {Code::kInternal,
          fmt::format("step {}, rank {}: the {}, first in layer '{}'; {}, or skip such steps with --on-nan skip",
                      step_.number, parts_.rank, what, layer, kRemedyOfNotFinite),
          {}};
}

// A step that does not end the update only adds its gradients to the sum.
Result<> StepRunner::push(size_t device, size_t bucket) {
  if (!step_.ends_update) {
    sum_.take(device, views_[device], parts_.bucket_begin[bucket], end_of(bucket));
    return {};
  }
  if (sum_.samples() > 0) {
    sum_.add_to(device, views_[device], parts_.bucket_begin[bucket], end_of(bucket));
  }
  telemetry::Span span(timeline(), "hand over gradients", "push");
  span.with("bucket", bucket).with("step", step_.number);
  return time_call(device, times_.push, [&] {
    return parts_.store.gradient_ready({bucket, device}, step_.number, sum_.samples() + step_.samples);
  });
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
  if (on_device_) return push(device, bucket);
  const std::string bad = train::bad_gradient(views_[device], parts_.bucket_begin[bucket], end_of(bucket), limit_);
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

Result<> StepRunner::explain_skip(bool scale_falls, const std::string& bad_gradient) {
  if (scale_falls && !bad_loss_) {
    parts_.log.info("step {} is skipped, because float16 overflowed; the loss scale is now {:g}", step_.number,
                    parts_.loss_scale.value());
    return {};
  }
  if (parts_.on_nan == job::OnNan::kFail) return tl::unexpected(not_finite(gradient_fault(), bad_gradient));
  parts_.log.warn("step {} is skipped, because the {}", step_.number,
                  bad_loss_ ? "loss is not finite" : gradient_fault(bad_gradient));
  return {};
}

template <class Visit>
void StepRunner::visit_statistics(const Visit& visit) {
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    for (const ParameterSpan& p : parts_.devices.parameters(device).statistics) visit(p.weight);
  }
}

void StepRunner::complete_statistics() {
  visit_statistics([](std::span<const float>) {});
}

void StepRunner::copy_statistics(std::vector<float>& into) {
  into.clear();
  visit_statistics([&](std::span<const float> values) { into.insert(into.end(), values.begin(), values.end()); });
}

void StepRunner::restore_statistics(std::span<const float> kept) {
  visit_statistics([&](std::span<float> values) {
    std::ranges::copy(kept.first(values.size()), values.begin());
    kept = kept.subspan(values.size());
  });
}

// Pushes zero gradients with 0 samples for a step that is left out, because the round of the other workers waits for
// this worker. They then leave the step out too. A worker that is alone pushes nothing.
Result<> StepRunner::push_zero_gradients() {
  if (parts_.workers == 1) return {};
  step_.samples = 0;
  sum_.clear();
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    for (const ParameterSpan& p : views_[device].parameters) std::ranges::fill(p.gradient, 0.0F);
  }
  return push_all();
}

Result<> StepRunner::launch(const data::LoadedBatch& batch, uint64_t step, bool ends_update) {
  DT_CHECK(launched_ == finished_ || (may_launch_ahead() && launched_ - finished_ < steps_.size()),
           "step {} is launched, but {} steps are not finished", step, launched_ - finished_);
  DT_CHECK(ends_update || !on_device_, "gradients in a device's memory are not added up");
  step_ = {.batch = batch, .number = step, .samples = static_cast<uint32_t>(batch.count), .ends_update = ends_update};
  steps_[launched_++ % steps_.size()] = step_;
  for (std::string& bad : bad_gradient_) bad.clear();
  // The forward pass mixes the batch into the moving statistics, where a NaN would stay forever.
  if (holds_back() && !devices_keep_statistics_) copy_statistics(kept_statistics_);
  parts_.devices.set_loss_scale(parts_.loss_scale.state());
  if (on_device_ && announced_ != batch.serial) DT_TRY_VOID(parts_.devices.announce({}));
  announced_ = 0;
  DT_TRY_VOID(time_pass(times_.forward, [&] { return forward(); }));
  return time_pass(times_.backward, [&] { return backward(); });
}

Result<> StepRunner::announce(const data::LoadedBatch& next) {
  if (!on_device_) return {};
  announced_ = next.serial;
  return parts_.devices.announce(next);
}

Result<bool> StepRunner::finish() {
  DT_CHECK(finished_ < launched_, "no step is launched");
  step_ = steps_[finished_++ % steps_.size()];
  if (on_device_) DT_TRY_VOID(time_pass(times_.backward, [&] { return wait_for_devices(); }));
  if (decisions_ != nullptr) return take_decision();
  DT_TRY(const bool applied, holds_back() ? push_or_skip_step() : Result<bool>(true));
  if (step_.ends_update) {
    sum_.clear();
  } else if (applied) {
    sum_.count(step_.samples);
  }
  return applied;
}

Result<> StepRunner::forward() {
  DT_TRY_VOID(parts_.devices.forward(step_.batch, wait_));
  if (parts_.tracer != nullptr) parts_.tracer->forward_done(step_.number);
  return {};
}

Result<> StepRunner::backward() {
  bad_loss_ = false;
  if (!on_device_) DT_TRY_VOID(check_loss());
  return bad_loss_ ? Result<>{} : parts_.devices.backward(ready_);
}

Result<> StepRunner::wait_for_devices() {
  DT_TRY_VOID(parts_.devices.finish());
  DT_TRY_VOID(check_loss());
  if (may_skip_steps() || !parts_.devices.skipped_update()) return {};
  return tl::unexpected(not_finite(gradient_fault(), bad_gradient_on_devices()));
}

Result<> StepRunner::check_loss() {
  size_t head = 0;
  while (head < parts_.devices.heads() && all_finite(parts_.devices.result(head))) head++;
  bad_loss_ = head < parts_.devices.heads();
  if (!bad_loss_ || parts_.on_nan == job::OnNan::kSkip) return {};
  const exec::Options compiled{.batch_size = step_.samples, .inputs = parts_.inputs};
  const ParameterView& view = parts_.devices.parameters();
  DT_TRY_VOID(copy_to_host(parts_.devices.device_parameters(), view));
  return tl::unexpected(not_finite(
      "loss is not finite", bad_layer(parts_.graph, compiled, view, step_.batch, {head, parts_.devices.result(head)})));
}

// The layer of a bad gradient, as the devices have noted it: their gradients may already be those of the next step.
// Never returns an empty string, even if they have noted none: only a device of another worker may have the sum with
// the bad value.
std::string StepRunner::bad_gradient_on_devices() {
  const std::optional<size_t> parameter = parts_.devices.bad_gradient();
  return parameter ? views_.front().parameters[*parameter].name : "?";
}

// Learns from the devices whether the step counts, and how their loss scale has changed.
Result<bool> StepRunner::take_decision() {
  const bool scale_falls = parts_.loss_scale.can_fall();
  parts_.loss_scale.restore(parts_.devices.loss_scale());
  const bool counts = !parts_.devices.skipped_update();
  decisions_->settle_step(step_.samples, counts);
  if (counts) return true;
  if (finished_ < launched_) steps_[finished_ % steps_.size()].number = step_.number;
  DT_TRY_VOID(explain_skip(scale_falls, bad_gradient_on_devices()));
  return false;
}

// Pushes the gradients that were held back, or skips the step. If one of the steps for an update is bad, all of them
// are skipped.
Result<bool> StepRunner::push_or_skip_step() {
  const std::string* bad = first_bad_gradient();
  const bool is_good = !bad_loss_ && bad == nullptr;
  if (is_good) {
    parts_.loss_scale.good_step();
  } else {
    const bool scale_falls = parts_.loss_scale.can_fall();
    parts_.loss_scale.bad_step();
    DT_TRY_VOID(explain_skip(scale_falls, bad == nullptr ? "" : *bad));
  }
  skips_update_ = skips_update_ || !is_good;
  if (!skips_update_) {
    DT_TRY_VOID(push_all());
    return true;
  }
  if (devices_keep_statistics_) {
    parts_.devices.undo_statistics();
  } else {
    restore_statistics(kept_statistics_);
  }
  if (step_.ends_update) {
    skips_update_ = false;
    DT_TRY_VOID(push_zero_gradients());
  }
  return false;
}

Result<> StepRunner::wait_for_weights() {
  for (size_t bucket = 0; bucket < parts_.bucket_begin.size(); bucket++) {
    for (size_t device = 0; device < parts_.devices.size(); device++) DT_TRY_VOID(wait_(device, bucket));
  }
  return {};
}

}  // namespace dtrain::train
