#include "train/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "train/log_lines.h"

namespace dtrain::train {

Result<> Snapshot::copy_weights(const ParameterView& from) {
  if (view_.parameters.empty()) {
    view_.parameters = from.parameters;
    view_.statistics = from.statistics;
    size_t count = 0;
    for (const auto* spans : {&from.parameters, &from.statistics}) {
      for (const ParameterSpan& span : *spans) count += span.weight.size();
    }
    values_.resize(count);
    std::span<float> left(values_);
    for (auto* spans : {&view_.parameters, &view_.statistics}) {
      for (ParameterSpan& span : *spans) {
        const size_t size = span.weight.size();
        span.weight = left.first(size);
        span.gradient = {};
        left = left.subspan(size);
      }
    }
  }
  const auto copy = [&](const std::vector<ParameterSpan>& source, std::vector<ParameterSpan>& own) -> Result<> {
    for (size_t i = 0; i < own.size(); i++) DT_TRY_VOID(read_array(from.device, source[i].weight, own[i].weight));
    return {};
  };
  DT_TRY_VOID(copy(from.parameters, view_.parameters));
  return copy(from.statistics, view_.statistics);
}

CheckpointWriter::~CheckpointWriter() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Result<Snapshot*> CheckpointWriter::next() {
  DT_TRY_VOID(finish());
  return &snapshot_;
}

void CheckpointWriter::write() {
  const MutexLock lock(mutex_);
  is_writing_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
}

Result<> CheckpointWriter::finish() {
  const MutexLock lock(mutex_);
  if (!is_writing_) return result_;
  const std::string name = snapshot_.checkpoint ? snapshot_.checkpoint->stem() : best_params_path(options_.prefix);
  const Waits::Wait wait(
      options_.waits, [name] { return fmt::format("checkpoint '{}' to be written", name); }, WaitFor::kOwnWork);
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return !is_writing_; });
  return result_;
}

Result<> CheckpointWriter::check() const {
  const MutexLock lock(mutex_);
  return result_;
}

double CheckpointWriter::longest_s() const {
  const MutexLock lock(mutex_);
  return longest_s_;
}

void CheckpointWriter::serve() {
  name_thread("checkpoint");
  // On two cores that a network of 400 ms a step keeps busy, writing ResNet-50 with momentum in the foreground made two
  // steps 2.5 times as long.
  run_in_background();
  const MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return is_writing_ || ends_; });
    if (!is_writing_) return;
    Result<> written;
    {
      const MutexUnlock unlock(mutex_);
      written = catching([this] { return write_files(); }, "writing a checkpoint");
    }
    if (result_) result_ = std::move(written);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - snapshot_.began;
    longest_s_ = std::max(longest_s_, took.count());
    is_writing_ = false;
    changed_.notify_all();
  }
}

Result<> CheckpointWriter::write_files() {
  if (snapshot_.is_best) {
    DT_TRY_VOID(write_best(options_.prefix, options_.symbol, snapshot_.view(), options_.fault, options_.claim));
    options_.log.info("{}", saved_line(best_params_path(options_.prefix)));
  }
  if (!snapshot_.checkpoint) return {};
  const CheckpointName& name = *snapshot_.checkpoint;
  DT_TRY_VOID(write_checkpoint(name,
                               {.symbol = options_.symbol,
                                .view = snapshot_.view(),
                                .slots = snapshot_.state.slots,
                                .header = snapshot_.header,
                                .with_states = snapshot_.with_states},
                               options_.fault, options_.claim));
  options_.log.info("{}", saved_line(name.params_path()));
  if (snapshot_.with_states) options_.log.info("Saved optimizer state to \"{}\"", name.states_path());
  for (const CheckpointName& outdated : snapshot_.outdated) remove_checkpoint(outdated);
  return {};
}

}  // namespace dtrain::train
