// Records the work of a device on the process's timeline (telemetry/timeline.h).
//
// A span is two events in a stream. collect() asks the device when it reached them and places them on the host's clock.
// Each stream of a device is a separate track, because their work overlaps: "GPU 0", "GPU 0: batches", and so on.
//
// The events are not part of a CUDA graph. A graph with events would have to replace the graph of a training without a
// trace, and one device alone cannot replace a graph that contains sums over several devices. So while is_on(), the
// executor queues the calls of its graphs one by one; where it cannot do that, it times the graph as a whole.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cuda/runtime/handle.h"
#include "telemetry/timeline.h"

namespace dtrain::cuda {

// Threads may record spans at the same time; one thread calls the rest.
class DeviceSpans {
 public:
  // Separate tracks for computation, the copies of batches, other copies, and a store's sums and updates.
  enum class Track : uint8_t { kCompute, kBatches, kCopies, kStore };

  // `timeline` may be null: nothing is recorded then.
  DeviceSpans(telemetry::Timeline* timeline, int device);

  // Returns a copy of the name for use in spans, which lives as long as the timeline.
  [[nodiscard]] const char* keep(const std::string& name) { return timeline_ == nullptr ? "" : timeline_->keep(name); }

  // To be called before a step: decides, from the state of the timeline, whether spans are recorded from now on. Costs
  // one relaxed load.
  void begin_step() { on_.store(timeline_ != nullptr && timeline_->is_on(), std::memory_order_relaxed); }
  [[nodiscard]] bool is_on() const { return on_.load(std::memory_order_relaxed); }

  // Adds the spans that have ended to the timeline. To be called when the host has waited for the work queued in
  // `stream`. Does nothing if nothing was recorded.
  void collect(cudaStream_t stream) DT_EXCLUDES(mutex_);

  // While a Pause exists, nothing is recorded.
  class Pause {
   public:
    explicit Pause(DeviceSpans& spans) : spans_(spans), was_on_(spans.on_.exchange(false)) {}
    ~Pause() { spans_.on_ = was_on_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    DeviceSpans& spans_;
    bool was_on_;
  };

  // Records the work that is queued in the stream between its construction and its destruction. `spans` may be null.
  // `name` must live as long as the timeline; `category` is static text. `bytes` are shown with the span unless they
  // are 0.
  class Span {
   public:
    Span(DeviceSpans* spans, Track track, cudaStream_t stream, const char* name, const char* category = "device",
         int64_t bytes = 0)
        : spans_(spans != nullptr && spans->is_on() ? spans : nullptr), stream_(stream) {
      if (spans_ != nullptr) index_ = spans_->begin(track, stream, name, category, bytes);
    }
    ~Span() {
      if (spans_ != nullptr) spans_->end(index_, stream_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    DeviceSpans* spans_;
    cudaStream_t stream_;
    size_t index_ = 0;
  };

 private:
  struct Open {
    CudaEvent begin, end;
    Track track = Track::kCompute;
    telemetry::TimelineEvent event = {};
    bool is_lost = false;  // its end could not be recorded
  };
  size_t begin(Track track, cudaStream_t stream, const char* name, const char* category, int64_t bytes)
      DT_EXCLUDES(mutex_);
  void end(size_t index, cudaStream_t stream) noexcept DT_EXCLUDES(mutex_);
  static bool is_over(const Open& open);
  void add(Open& open, int64_t anchor_ns);

  telemetry::Timeline* timeline_;
  std::array<const char*, 4> tracks_ = {};
  std::atomic<bool> on_ = false;
  CudaEvent anchor_;
  Mutex mutex_;
  // The first used_ entries are in use; the others keep their events for reuse.
  std::vector<Open> open_ DT_GUARDED_BY(mutex_);
  size_t used_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::cuda
