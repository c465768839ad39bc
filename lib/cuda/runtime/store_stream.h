// The stream of a device in which a store works. The executor, the group and the optimizer of a device share it.
//
// A step may be one CUDA graph. The store's calls are still made in every step, because they count steps and stage
// values that change, but work that the graph contains is not queued again.
#pragma once

#include <chrono>
#include <functional>

#include "base/error.h"
#include "base/waits.h"
#include "cuda/runtime/device_spans.h"
#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

// Only one thread at a time may use it.
class StoreStream {
 public:
  // `device` must be the current device. Long waits are listed in `waits`, which may be null.
  explicit StoreStream(int device, Waits* waits = nullptr) : device_(device), waits_(waits), stream_(make_stream()) {}

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }

  // Two steps may be queued at the same time. Values that the device reads from or writes to the host's memory exist
  // twice, and steps take turns in using them: 0, 1, 0, and so on. The executor sets the turn of the step that is being
  // queued; the store's work in this stream uses the values of that turn.
  static constexpr size_t kTurns = 2;
  [[nodiscard]] size_t turn() const { return turn_; }
  void set_turn(size_t turn) { turn_ = turn; }

  // Whether to queue work. If not, a graph that is about to run already contains the work.
  [[nodiscard]] bool takes_work() const { return !replays_; }
  // While an object of this class exists, a graph with the store's work is about to run.
  class Replay {
   public:
    explicit Replay(StoreStream& stream) : stream_(stream) { stream_.replays_ = true; }
    ~Replay() { stream_.replays_ = false; }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

   private:
    StoreStream& stream_;
  };

  // Graphs that contain work of a group or an optimizer must be destroyed before the group or optimizer, because NCCL
  // waits for the end of each graph before it ends a group. The owner of such graphs sets a function that drops them,
  // also while the device runs them, but not while they are being captured or launched.
  void set_drop_graphs(std::function<void()> drop) { drop_graphs_ = std::move(drop); }
  void drop_graphs() const {
    if (drop_graphs_) drop_graphs_();
  }

  // For work that waits for other devices and therefore may never end: while the host waits for this device, `watch` is
  // called repeatedly with the time waited so far, and an Error that it returns ends the wait. In that case `watch`
  // must also make the device's work end.
  using Watch = std::function<Result<>(std::chrono::steady_clock::duration waited)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }
  // Whether the stream's work may wait for other devices.
  [[nodiscard]] bool is_watched() const { return watch_ != nullptr; }
  // wait() and await() sleep until the event has occurred. After Limits::failed_after they throw an error of the
  // device, because nothing that a device computes takes that long. await() does not call `watch`.
  Result<> wait(cudaEvent_t event) const { return wait_for(event, watch_); }
  void await(cudaEvent_t event) const { (void)wait_for(event, nullptr); }
  struct Limits {
    std::chrono::milliseconds listed_after{1'000}, failed_after{600'000};
  };
  void set_limits(const Limits& limits) { limits_ = limits; }

  // Where the stream's work is recorded; null: it is not recorded.
  void record_on(DeviceSpans* spans) { spans_ = spans; }
  [[nodiscard]] DeviceSpans* spans() const { return spans_; }

 private:
  Result<> wait_for(cudaEvent_t event, const Watch& watch) const;

  int device_;
  Waits* waits_;
  Limits limits_;
  CudaStream stream_;
  size_t turn_ = 0;
  bool replays_ = false;
  DeviceSpans* spans_ = nullptr;
  Watch watch_;
  std::function<void()> drop_graphs_;
};

}  // namespace dtrain::cuda
