#include "train/step.h"

#include <algorithm>

#include "train/finite.h"

namespace dtrain::train {

StepRunner::StepRunner(StepParts parts)
    : parts_(std::move(parts)),
      wait_([this](size_t bucket) { return parts_.store.weights_wait(bucket); }),
      ready_([this](size_t bucket) { return on_bucket(bucket); }) {}

size_t StepRunner::end_of(size_t bucket) const {
  return bucket + 1 < parts_.bucket_begin.size() ? parts_.bucket_begin[bucket + 1]
                                                 : parts_.executor.parameters().parameters.size();
}

Error StepRunner::not_finite(const std::string& what, const std::string& layer) const {
  return {
      Code::kInternal,
      fmt::format("step {}, rank {}: the {} is not finite, first in layer '{}' (--on-nan skip leaves such steps out)",
                  step_, parts_.rank, what, layer),
      {}};
}

Result<> StepRunner::hand_over(size_t bucket) {
  return parts_.store.gradient_ready(bucket, step_, samples_);
}

Result<> StepRunner::on_bucket(size_t bucket) {
  const std::string bad =
      train::bad_gradient(parts_.executor.parameters(), parts_.bucket_begin[bucket], end_of(bucket));
  if (parts_.on_nan == job::OnNan::kFail) {
    if (!bad.empty()) return tl::unexpected(not_finite("gradient", bad));
    return hand_over(bucket);
  }
  // What has been handed over cannot be taken back, so with skip nothing is until all of it has been looked at.
  if (bad_gradient_.empty()) bad_gradient_ = bad;
  return {};
}

// The forward pass has mixed the batch into the moving statistics, and what is not a number stays in them for ever.
void StepRunner::keep_statistics() {
  kept_statistics_.clear();
  for (const ParameterSpan& p : parts_.executor.parameters().statistics) {
    kept_statistics_.insert(kept_statistics_.end(), p.weight.begin(), p.weight.end());
  }
}

void StepRunner::restore_statistics() {
  auto from = kept_statistics_.begin();
  for (const ParameterSpan& p : parts_.executor.parameters().statistics) {
    std::copy_n(from, p.weight.size(), p.weight.begin());
    from += static_cast<ptrdiff_t>(p.weight.size());
  }
}

// The other workers' round waits for this one: it gives zeros that count for no sample. Alone, the step simply has not
// been.
Result<> StepRunner::hand_over_nothing() {
  if (parts_.workers == 1) return {};
  samples_ = 0;
  for (const ParameterSpan& p : parts_.executor.parameters().parameters) {
    std::fill(p.gradient.begin(), p.gradient.end(), 0.0F);
  }
  for (size_t bucket = parts_.bucket_begin.size(); bucket > 0; bucket--) DT_TRY_VOID(hand_over(bucket - 1));
  return {};
}

Result<bool> StepRunner::run(const data::LoadedBatch& batch, uint64_t step) {
  step_ = step;
  samples_ = static_cast<uint32_t>(batch.count);
  bad_gradient_.clear();
  if (parts_.on_nan == job::OnNan::kSkip) keep_statistics();
  const exec::Batch input{.data = batch.data, .labels = batch.labels};
  DT_TRY_VOID(parts_.executor.forward(input, wait_));
  const std::span<const float> probabilities = parts_.executor.probabilities();
  const bool bad_loss = !all_finite(probabilities);
  if (bad_loss && parts_.on_nan == job::OnNan::kFail) {
    return tl::unexpected(
        not_finite("loss", bad_layer(parts_.graph, parts_.image, parts_.executor.parameters(), input, probabilities)));
  }
  if (!bad_loss) DT_TRY_VOID(parts_.executor.backward(ready_));
  if (parts_.on_nan == job::OnNan::kFail) return true;
  if (bad_loss || !bad_gradient_.empty()) {
    parts_.log.warn("step {}: the {} is not finite: left out", step_,
                    bad_loss ? std::string("loss") : fmt::format("gradient of '{}'", bad_gradient_));
    restore_statistics();
    DT_TRY_VOID(hand_over_nothing());
    return false;
  }
  for (size_t bucket = parts_.bucket_begin.size(); bucket > 0; bucket--) DT_TRY_VOID(hand_over(bucket - 1));
  return true;
}

Result<> StepRunner::wait_for_weights() {
  for (size_t bucket = 0; bucket < parts_.bucket_begin.size(); bucket++) DT_TRY_VOID(wait_(bucket));
  return {};
}

}  // namespace dtrain::train
