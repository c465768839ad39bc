// The stream of a device in which a store works: what the executor, the group and the optimizer of a device know of
// each other.
//
// A step may be one CUDA graph. The store's calls are made in every step all the same, since they count and stage what
// changes; but the work that the graph holds is not queued beside it.
#pragma once

#include <chrono>
#include <functional>

#include "base/error.h"
#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

// One thread at a time uses it.
class StoreStream {
 public:
  // On the device `device`, the current one.
  explicit StoreStream(int device) : device_(device), stream_(make_stream()) {}

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }

  // Whether to queue work. false: a graph that is about to run holds it already.
  [[nodiscard]] bool takes_work() const { return !replays_; }
  // While it lives, a graph with the store's work is about to run.
  class Replay {
   public:
    explicit Replay(StoreStream& stream) : stream_(stream) { stream_.replays_ = true; }
    ~Replay() { stream_.replays_ = false; }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

   private:
    StoreStream& stream_;
  };

  // Graphs with work of a group or an optimizer go before these do: whoever owns such graphs says how to drop them,
  // which nobody calls while a step is on its way. (NCCL keeps what a graph uses until the graph is gone.)
  void set_drop_graphs(std::function<void()> drop) { drop_graphs_ = std::move(drop); }
  void drop_graphs() const {
    if (drop_graphs_) drop_graphs_();
  }

  // Work that waits for other devices may wait for ever: `watch` is asked again and again while the host waits for the
  // device, with the time that it has waited, and its Error ends the wait. It sees to it that the device comes to an
  // end then.
  using Watch = std::function<Result<>(std::chrono::steady_clock::duration waited)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }
  // Returns when the event has come.
  Result<> wait(cudaEvent_t event) const;

 private:
  int device_;
  CudaStream stream_;
  bool replays_ = false;
  Watch watch_;
  std::function<void()> drop_graphs_;
};

}  // namespace dtrain::cuda
