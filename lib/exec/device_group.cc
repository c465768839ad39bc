#include "exec/device_group.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "telemetry/timeline.h"

namespace dtrain::exec {

Result<std::vector<int64_t>> split_batch(int64_t batch, std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  int64_t left = batch;
  for (size_t i = 0; i < weights.size(); i++) {
    const bool is_last = i + 1 == weights.size();
    const int64_t wanted = std::llround(weights[i] * static_cast<double>(batch) / total);
    shares.push_back(is_last ? left : std::min(wanted, left));
    left -= shares.back();
    if (shares.back() <= 0) {
      return fail(Code::kUsage,
                  "a batch of {} images leaves none for device {} of {}: change --batch-size or --work-load-list",
                  batch, i, weights.size());
    }
  }
  return shares;
}

DeviceGroup::DeviceGroup(std::vector<std::unique_ptr<Executor>> executors, std::vector<int64_t> batch_sizes)
    : executors_(std::move(executors)),
      shares_(executors_.size()),
      forward_([this](int64_t device) { forward_on(static_cast<size_t>(device)); }),
      backward_([this](int64_t device) { backward_on(static_cast<size_t>(device)); }),
      finish_([this](int64_t device) { finish_on(static_cast<size_t>(device)); }),
      announce_([this](int64_t device) { announce_on(static_cast<size_t>(device)); }),
      pool_(static_cast<int>(std::max<size_t>(executors_.size(), 1)), "device") {
  DT_CHECK(!executors_.empty() && executors_.size() == batch_sizes.size(), "there are {} executors, but {} batch sizes",
           executors_.size(), batch_sizes.size());
  for (size_t i = 0; i < shares_.size(); i++) {
    Share& share = shares_[i];
    share.begin = batch_size_;
    share.count = batch_sizes[i];
    share.wait = [this, i](size_t bucket) { return (*call_)(i, bucket); };
    share.ready = share.wait;
    batch_size_ += batch_sizes[i];
  }
  for (size_t head = 0; size() > 1 && head < heads(); head++) {
    const size_t each = executors_.front()->result(head).size() / static_cast<size_t>(shares_.front().count);
    results_.push_back({.values = Buffer<float>(each * static_cast<size_t>(batch_size_))});
  }
}

DeviceGroup::DeviceGroup(std::unique_ptr<Executor> executor, int64_t batch_size)
    : DeviceGroup(
          [&] {
            std::vector<std::unique_ptr<Executor>> one;
            one.push_back(std::move(executor));
            return one;
          }(),
          {batch_size}) {}

Result<> DeviceGroup::on_each(const std::function<void(int64_t)>& work) {
  if (size() == 1) {
    work(0);
  } else {
    pool_.parallel_for(static_cast<int64_t>(size()), work);
  }
  for (Share& share : shares_) {
    if (!share.outcome) return tl::unexpected(share.outcome.error());
  }
  return {};
}

void DeviceGroup::forward_on(size_t device) {
  Share& share = shares_[device];
  share.outcome = catching([&]() -> Result<> {
    flush_denormals();
    const telemetry::Span span(timeline_, "forward", "compute");
    return executors_[device]->forward(batch_.part(batch_size_, share.begin, share.count), share.wait);
  });
}

void DeviceGroup::backward_on(size_t device) {
  Share& share = shares_[device];
  share.outcome = catching([&]() -> Result<> {
    flush_denormals();
    const telemetry::Span span(timeline_, "backward", "compute");
    return executors_[device]->backward(share.ready);
  });
}

void DeviceGroup::finish_on(size_t device) {
  shares_[device].outcome = catching([&]() -> Result<> {
    const telemetry::Span span(timeline_, "wait for the device", "compute");
    return executors_[device]->finish();
  });
}

void DeviceGroup::announce_on(size_t device) {
  Share& share = shares_[device];
  share.outcome = catching([&]() -> Result<> {
    executors_[device]->announce(batch_.part(batch_size_, share.begin, share.count));
    return {};
  });
}

void DeviceGroup::forget_results() {
  for (Gathered& result : results_) result.is_gathered = false;
}

Result<> DeviceGroup::forward(const Batch& batch, const DeviceCall& wait) {
  batch_ = batch;
  call_ = &wait;
  forget_results();
  return on_each(forward_);
}

Result<> DeviceGroup::backward(const DeviceCall& ready) {
  call_ = &ready;
  return on_each(backward_);
}

Result<> DeviceGroup::finish() {
  forget_results();
  return on_each(finish_);
}

Result<> DeviceGroup::on_devices(const std::function<Result<>(size_t device)>& work) {
  const auto on_one = [&](int64_t device) {
    const auto i = static_cast<size_t>(device);
    shares_[i].outcome = catching([&] { return work(i); });
  };
  return on_each(std::ref(on_one));  // passed by reference, so that nothing is allocated
}

void DeviceGroup::set_loss_scale(const optim::LossScaleState& state) {
  for (const auto& executor : executors_) executor->set_loss_scale(state);
}

void DeviceGroup::skip_bad_steps(bool dynamic_scale) {
  for (const auto& executor : executors_) executor->skip_bad_steps(dynamic_scale);
}

bool DeviceGroup::keep_statistics() {
  return std::ranges::all_of(executors_, [](const auto& executor) { return executor->keep_statistics(); });
}

void DeviceGroup::undo_statistics() {
  for (const auto& executor : executors_) executor->undo_statistics();
}

bool DeviceGroup::skipped_update() {
  return std::ranges::any_of(executors_, [](const auto& executor) { return executor->skipped_update(); });
}

std::optional<size_t> DeviceGroup::bad_gradient() {
  std::optional<size_t> last;
  for (const auto& executor : executors_) last = std::max(last, executor->bad_gradient());
  return last;
}

// On the devices' own threads, because the driver may copy a batch in the calling thread.
Result<> DeviceGroup::announce(const Batch& batch) {
  batch_ = batch;
  return on_each(announce_);
}

std::span<const float> DeviceGroup::result(size_t head) {
  if (size() == 1) return executors_.front()->result(head);
  Gathered& whole = results_[head];
  for (size_t device = 0; device < size() && !whole.is_gathered; device++) {
    const Share& share = shares_[device];
    const std::span<const float> own = executors_[device]->result(head);
    const size_t each = own.size() / static_cast<size_t>(share.count);
    std::copy(own.begin(), own.end(), whole.values.data() + static_cast<size_t>(share.begin) * each);
  }
  whole.is_gathered = true;
  return whole.values.span();
}

}  // namespace dtrain::exec
