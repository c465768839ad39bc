#include "data/loading/batch_ring.h"

#include <algorithm>
#include <utility>

namespace dtrain::data {

BatchRing::BatchRing(const Options& options)
    : options_(options),
      batches_(options.batches),
      filling_(static_cast<size_t>(options.slots)),
      decoders_(options.decoders) {
  DT_CHECK(options.slots >= 2 && options.run_rows >= 1,
           "there must be at least 2 slots and 1 row per run, not {} slots and {} rows", options.slots,
           options.run_rows);
}

void BatchRing::prepare(int64_t batch) {
  filling_of(batch) = {.missing = options_.batch_size, .error = std::nullopt};
}

std::optional<BatchRing::Run> BatchRing::take_run(int decoder) {
  const MutexLock lock(mutex_);
  work_.wait(mutex_, [this, decoder]() DT_REQUIRES(mutex_) {
    const int64_t limit = std::min(next_ + options_.slots - 1, batches_);
    return stop_ || (running_ && decoder < decoders_ && cursor_.batch < limit);
  });
  if (stop_) return std::nullopt;
  if (cursor_.begin == 0) prepare(cursor_.batch);
  const Run run{cursor_.batch, cursor_.begin, std::min(cursor_.begin + options_.run_rows, options_.batch_size)};
  cursor_.begin = run.end;
  if (run.end == options_.batch_size) cursor_ = {.batch = run.batch + 1};
  in_flight_++;
  return run;
}

void BatchRing::finish_run(const Run& run, Result<> result) {
  const MutexLock lock(mutex_);
  Filling& filling = filling_of(run.batch);
  filling.missing -= run.end - run.begin;
  if (!result && !filling.error) {
    filling.error = std::move(result.error());
    running_ = false;  // decoders have already taken all earlier batches, and later ones will not be returned
  }
  in_flight_--;
  finished_++;
  if (filling.missing == 0 || filling.error || in_flight_ == 0) ready_.notify_all();
}

void BatchRing::fail_next_batch(const Error& error) {
  const MutexLock lock(mutex_);
  filling_of(next_).error = error;
  running_ = false;
  ready_.notify_all();
}

void BatchRing::pause() {
  const MutexLock lock(mutex_);
  running_ = false;
  const bool ended =
      ready_.wait_for(mutex_, options_.wait_max, [this]() DT_REQUIRES(mutex_) { return in_flight_ == 0; });
  DT_CHECK(ended, "a decoder thread did not finish its images within the time limit");
}

void BatchRing::set_batches(int64_t batches) {
  const MutexLock lock(mutex_);
  batches_ = batches;
}

void BatchRing::resume(int64_t first) {
  const MutexLock lock(mutex_);
  next_ = first;
  cursor_ = {.batch = first};
  prepare(first);
  running_ = true;
  work_.notify_all();
}

// Waits until the slot of `filling` is full or has failed. Returns false if there was no progress for wait_max.
bool BatchRing::await(const Filling& filling) {
  while (filling.missing > 0 && !filling.error) {
    const int64_t before = finished_;
    if (ready_.wait_for(mutex_, options_.wait_max) == std::cv_status::timeout && finished_ == before) return false;
  }
  return true;
}

Result<std::optional<int64_t>> BatchRing::take_batch() {
  const MutexLock lock(mutex_);
  if (next_ >= batches_) return std::nullopt;
  const Filling& filling = filling_of(next_);
  if (!await(filling)) {
    return fail(Code::kData, "no image could be read for {} s; check that the disk with the data responds",
                options_.wait_max.count());
  }
  if (filling.error) return tl::unexpected(*filling.error);
  const int64_t batch = next_++;
  // If no decoder has begun batch next_ yet, all its rows are marked as missing here.
  if (next_ == cursor_.batch && cursor_.begin == 0) prepare(next_);
  work_.notify_all();
  return batch;
}

std::optional<int64_t> BatchRing::complete_batch() {
  const MutexLock lock(mutex_);
  if (next_ >= batches_ || cursor_.batch <= next_) return std::nullopt;
  const Filling& filling = filling_of(next_);
  if (filling.missing > 0 || filling.error) return std::nullopt;
  return next_;
}

int64_t BatchRing::ready_batches() {
  const MutexLock lock(mutex_);
  int64_t ready = 0;
  for (int64_t batch = next_; batch < cursor_.batch; batch++) {
    const Filling& filling = filling_of(batch);
    if (filling.missing == 0 && !filling.error) ready++;
  }
  return ready;
}

void BatchRing::set_decoders(int decoders) {
  const MutexLock lock(mutex_);
  decoders_ = decoders;
  work_.notify_all();
}

void BatchRing::stop() {
  const MutexLock lock(mutex_);
  stop_ = true;
  work_.notify_all();
}

}  // namespace dtrain::data
