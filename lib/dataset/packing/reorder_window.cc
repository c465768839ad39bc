#include "dataset/packing/reorder_window.h"

#include <utility>

namespace dtrain::dataset {
namespace {

size_t bytes_of(const Result<ReorderWindow::Bytes>& result) {
  return result ? result->size() : 0;
}

}  // namespace

// The item whose result is needed next is handed out in any case, even if a single result is larger than the window.
bool ReorderWindow::has_room() const {
  return next_ == first_ || (next_ - first_ < items_max_ && bytes_ < bytes_max_);
}

std::optional<size_t> ReorderWindow::take() {
  const MutexLock lock(mutex_);
  room_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return stopped_ || next_ == end_ || has_room(); });
  if (stopped_ || next_ == end_) return std::nullopt;
  results_.emplace_back();
  return next_++;
}

void ReorderWindow::put(size_t item, Result<Bytes> result) {
  const MutexLock lock(mutex_);
  bytes_ += bytes_of(result);
  results_[item - first_] = std::move(result);
  if (item == first_) ready_.notify_one();
}

std::optional<Result<ReorderWindow::Bytes>> ReorderWindow::next(std::chrono::milliseconds limit) {
  const MutexLock lock(mutex_);
  const auto ready = [&]() DT_REQUIRES(mutex_) { return !results_.empty() && results_.front().has_value(); };
  if (!ready_.wait_for(mutex_, limit, ready)) return std::nullopt;
  std::optional<Result<Bytes>> result = std::move(results_.front());
  results_.pop_front();
  first_++;
  bytes_ -= bytes_of(*result);
  room_.notify_all();
  return result;
}

ReorderWindow::Bytes ReorderWindow::spare() {
  const MutexLock lock(mutex_);
  if (spare_.empty()) return {};
  Bytes memory = std::move(spare_.back());
  spare_.pop_back();
  return memory;
}

void ReorderWindow::reuse(Bytes memory) {
  // Limits on the buffers that are kept for reuse; larger ones are rare and are freed.
  constexpr size_t kSpareMax = 64, kBytesMax = 1 << 20;
  const MutexLock lock(mutex_);
  if (spare_.size() < kSpareMax && memory.capacity() <= kBytesMax) spare_.push_back(std::move(memory));
}

void ReorderWindow::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  room_.notify_all();
}

}  // namespace dtrain::dataset
