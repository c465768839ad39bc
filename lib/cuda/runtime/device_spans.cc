#include "cuda/runtime/device_spans.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

namespace dtrain::cuda {

DeviceSpans::DeviceSpans(telemetry::Timeline* timeline, int device) : timeline_(timeline) {
  if (timeline == nullptr) return;
  constexpr std::array<const char*, 4> kNames = {"", ": batches", ": copies", ": sums and updates"};
  for (size_t i = 0; i < kNames.size(); i++) tracks_[i] = timeline->keep(fmt::format("GPU {}{}", device, kNames[i]));
}

size_t DeviceSpans::begin(Track track, cudaStream_t stream, const char* name, const char* category, int64_t bytes) {
  const MutexLock lock(mutex_);
  if (used_ == open_.size()) {
    Open& made = open_.emplace_back();
    made.begin = make_event(true);
    made.end = make_event(true);
  }
  Open& open = open_[used_];
  open.track = track;
  open.event = {};
  open.event.name = name;
  open.event.category = category;
  if (bytes > 0) open.event.arguments[0] = {"bytes", bytes};
  DT_CUDA(cudaEventRecord(open.begin.get(), stream));
  return used_++;
}

// Records the end of a span. Called by a destructor, which must not throw, so a span whose end cannot be recorded is
// dropped; the next call of the executor reports a broken device.
void DeviceSpans::end(size_t index, cudaStream_t stream) noexcept {
  const MutexLock lock(mutex_);
  open_[index].is_lost = cudaEventRecord(open_[index].end.get(), stream) != cudaSuccess;
}

// Places the spans on the host's clock. The device's clock has no relation to it, so an event is needed whose time the
// host knows. The host waits for such an event here, where the device has nothing left to do. The wait takes some
// microseconds, by which the spans may be shown too late. They are never shown before the host queued them, and never
// after this function.
void DeviceSpans::collect(cudaStream_t stream) {
  const MutexLock lock(mutex_);
  if (used_ == 0) return;
  size_t left = 0;  // number of spans that have not ended, such as the copy of the next batch
  for (size_t i = 0; i < used_; i++) {
    if (open_[i].is_lost || is_over(open_[i])) continue;
    std::swap(open_[left++], open_[i]);
  }
  if (anchor_.get() == nullptr) anchor_ = make_event(true);
  DT_CUDA(cudaEventRecord(anchor_.get(), stream));
  DT_CUDA(cudaEventSynchronize(anchor_.get()));
  const int64_t anchor_ns = telemetry::Timeline::now_ns();
  for (size_t i = left; i < used_; i++) {
    if (!open_[i].is_lost) add(open_[i], anchor_ns);
  }
  used_ = left;
}

bool DeviceSpans::is_over(const Open& open) {
  const cudaError_t state = cudaEventQuery(open.end.get());
  if (state == cudaErrorNotReady) return false;
  DT_CUDA(state);
  return true;
}

void DeviceSpans::add(Open& open, int64_t anchor_ns) {
  const auto time_of = [&](const CudaEvent& event) {
    constexpr double kNsPerMs = 1e6;
    float ms = 0;
    DT_CUDA(cudaEventElapsedTime(&ms, event.get(), anchor_.get()));
    return anchor_ns - std::llround(kNsPerMs * static_cast<double>(ms));
  };
  open.event.begin_ns = time_of(open.begin);
  open.event.end_ns = time_of(open.end);
  timeline_->add_to(tracks_[static_cast<size_t>(open.track)], open.event);
}

}  // namespace dtrain::cuda
