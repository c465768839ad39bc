#include "train/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "kvstore/worker/training_state.h"
#include "train/log_lines.h"

namespace dtrain::train {

void Snapshot::take_memory(const ParameterView& network, const std::vector<std::string>& slots) {
  take_weights(network);
  kvstore::make_slots(state, network, slots);
}

void Snapshot::take_weights(const ParameterView& network) {
  if (!view_.parameters.empty()) return;
  view_.parameters = network.parameters;
  view_.statistics = network.statistics;
  size_t count = 0;
  for (const auto* spans : {&network.parameters, &network.statistics}) {
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

Result<> Snapshot::copy_weights(const ParameterView& from) {
  take_weights(from);
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

void CheckpointWriter::prepare(const ParameterView& network, std::vector<std::string> slots) {
  begin([this, network, slots = std::move(slots)]() -> Result<> {
    snapshot_.take_memory(network, slots);
    return {};
  });
}

void CheckpointWriter::write() {
  begin([this]() -> Result<> {
    Result<> written = write_files();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - snapshot_.began;
    const MutexLock lock(mutex_);
    longest_s_ = std::max(longest_s_, took.count());
    return written;
  });
}

void CheckpointWriter::begin(std::function<Result<>()> work) {
  const MutexLock lock(mutex_);
  work_ = std::move(work);
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
}

Result<> CheckpointWriter::finish() {
  const MutexLock lock(mutex_);
  if (!work_) return result_;
  const std::string name = snapshot_.checkpoint ? snapshot_.checkpoint->stem() : options_.prefix;
  const Waits::Wait wait(
      options_.waits, [name] { return fmt::format("checkpoint '{}' to be written", name); }, WaitFor::kOwnWork);
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return !work_; });
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
  // On two cores that ResNet-50 keeps busy, writing it with momentum in the foreground made two steps of 400 ms 2.5
  // times as long. With a tenth of a core, steps of 0.55 s and 2 s at a save were 1.2 to 1.5 times as long as the
  // median.
  run_in_background();
  const MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return work_ || ends_; });
    if (!work_) return;
    const std::function<Result<>()> work = work_;
    Result<> done;
    {
      const MutexUnlock unlock(mutex_);
      done = catching(work, "writing a checkpoint");
    }
    if (result_) result_ = std::move(done);
    work_ = nullptr;
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
