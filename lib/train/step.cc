#include "train/step.h"

#include <algorithm>

#include "tensor/buckets.h"
#include "train/finite.h"

namespace dtrain::train {

StepRunner::StepRunner(StepParts parts)
    : parts_(std::move(parts)),
      wait_([this](size_t device, size_t bucket) {
        return parts_.store.weights_wait({bucket, device});
      }),
      ready_([this](size_t device, size_t bucket) { return on_bucket(device, bucket); }),
      bad_gradient_(parts_.devices.size()) {}

size_t StepRunner::end_of(size_t bucket) const {
  return bucket_end(parts_.bucket_begin, bucket, parts_.devices.parameters().parameters.size());
}

Error StepRunner::not_finite(const std::string& what, const std::string& layer) const {
  return {
      Code::kInternal,
      fmt::format("step {}, rank {}: the {} is not finite, first in layer '{}' (--on-nan skip leaves such steps out)",
                  step_, parts_.rank, what, layer),
      {}};
}

Result<> StepRunner::hand_over(size_t device, size_t bucket) {
  return parts_.store.gradient_ready({bucket, device}, step_, samples_);
}

Result<> StepRunner::hand_over_all() {
  for (size_t bucket = parts_.bucket_begin.size(); bucket-- > 0;) {
    for (size_t device = 0; device < parts_.devices.size(); device++) DT_TRY_VOID(hand_over(device, bucket));
  }
  return {};
}

Result<> StepRunner::on_bucket(size_t device, size_t bucket) {
  const std::string bad =
      train::bad_gradient(parts_.devices.parameters(device), parts_.bucket_begin[bucket], end_of(bucket));
  if (!holds_back()) {
    if (!bad.empty()) return tl::unexpected(not_finite("gradient", bad));
    return hand_over(device, bucket);
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
  parts_.log.info("step {}: float16 overflowed: left out, the loss scale is {:g} from now on", step_,
                  parts_.loss_scale.value());
  return true;
}

Result<> StepRunner::leave_out(const std::string& why) {
  if (!why.empty()) parts_.log.warn("step {}: the {} is not finite: left out", step_, why);
  restore_statistics();
  return hand_over_nothing();
}

// The forward pass has mixed the batch into the moving statistics, and what is not a number stays in them for ever.
void StepRunner::keep_statistics() {
  kept_statistics_.clear();
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    for (const ParameterSpan& p : parts_.devices.parameters(device).statistics) {
      kept_statistics_.insert(kept_statistics_.end(), p.weight.begin(), p.weight.end());
    }
  }
}

void StepRunner::restore_statistics() {
  auto from = kept_statistics_.begin();
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    for (const ParameterSpan& p : parts_.devices.parameters(device).statistics) {
      std::copy_n(from, p.weight.size(), p.weight.begin());
      from += static_cast<ptrdiff_t>(p.weight.size());
    }
  }
}

// The other workers' round waits for this one: it gives zeros that count for no sample. Alone, the step simply has not
// been.
Result<> StepRunner::hand_over_nothing() {
  if (parts_.workers == 1) return {};
  samples_ = 0;
  for (size_t device = 0; device < parts_.devices.size(); device++) {
    for (const ParameterSpan& p : parts_.devices.parameters(device).parameters) {
      std::fill(p.gradient.begin(), p.gradient.end(), 0.0F);
    }
  }
  return hand_over_all();
}

Result<bool> StepRunner::run(const data::LoadedBatch& batch, uint64_t step) {
  step_ = step;
  samples_ = static_cast<uint32_t>(batch.count);
  for (std::string& bad : bad_gradient_) bad.clear();
  if (holds_back()) keep_statistics();
  parts_.devices.set_loss_scale(parts_.loss_scale.value());
  const exec::Batch input{.data = batch.data, .labels = batch.labels};
  DT_TRY_VOID(parts_.devices.forward(input, wait_));
  const std::span<const float> probabilities = parts_.devices.probabilities();
  const bool bad_loss = !all_finite(probabilities);
  if (bad_loss && parts_.on_nan == job::OnNan::kFail) {
    return tl::unexpected(
        not_finite("loss", bad_layer(parts_.graph, parts_.image, parts_.devices.parameters(), input, probabilities)));
  }
  if (!bad_loss) DT_TRY_VOID(parts_.devices.backward(ready_));
  if (!holds_back()) return true;
  return conclude(bad_loss);
}

// What was held back is given away, or left out.
Result<bool> StepRunner::conclude(bool bad_loss) {
  const std::string* bad = first_bad_gradient();
  if (!bad_loss && bad == nullptr) {
    parts_.loss_scale.good_step();
    DT_TRY_VOID(hand_over_all());
    return true;
  }
  if (!bad_loss && overflowed()) {
    DT_TRY_VOID(leave_out(""));
    return false;
  }
  if (parts_.on_nan == job::OnNan::kFail) return tl::unexpected(not_finite("gradient", *bad));
  DT_TRY_VOID(leave_out(bad_loss ? "loss" : fmt::format("gradient of '{}'", *bad)));
  return false;
}

Result<> StepRunner::wait_for_weights() {
  for (size_t bucket = 0; bucket < parts_.bucket_begin.size(); bucket++) {
    for (size_t device = 0; device < parts_.devices.size(); device++) DT_TRY_VOID(wait_(device, bucket));
  }
  return {};
}

}  // namespace dtrain::train
