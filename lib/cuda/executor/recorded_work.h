// Work that is queued again and again: as it is the first time, then captured as a CUDA graph and from then on
// replayed, which costs the host one call instead of hundreds.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

using CudaGraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

enum class QueueMode {
  kQueue,    // the work is to be queued
  kCapture,  // likewise, but it runs only when all of it was
  kReplay,   // the graph holds it: nothing is to be queued, and the graph runs afterwards
};

class RecordedWork {
 public:
  // The second run captures: not the first, in which libraries may still load their kernels and connect.
  [[nodiscard]] QueueMode next() const {
    if (graph_.get() != nullptr) return QueueMode::kReplay;
    return has_run_ ? QueueMode::kCapture : QueueMode::kQueue;
  }

  // work(mode) -> Result<> does what its mode says, in `stream` and in streams that it makes wait for it and it for
  // them. Its Error is returned and nothing runs. DeviceError, with the call that failed, if it cannot be captured.
  template <class Work>
  Result<> run(cudaStream_t stream, const Work& work) {
    const QueueMode mode = next();
    if (mode == QueueMode::kCapture) {
      Capture capture(stream);
      DT_TRY_VOID(work(mode));
      graph_ = capture.finish();
    } else {
      DT_TRY_VOID(work(mode));
    }
    has_run_ = true;
    if (mode != QueueMode::kQueue) DT_CUDA(cudaGraphLaunch(graph_.get(), stream));
    return {};
  }

 private:
  // A stream that records instead of running, until finish or the end of the object's life: a call that fails in
  // between must not leave it so.
  class Capture {
   public:
    explicit Capture(cudaStream_t stream);
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture();
    CudaGraphExec finish();

   private:
    cudaStream_t stream_;
    bool finished_ = false;
  };

  bool has_run_ = false;
  CudaGraphExec graph_;
};

}  // namespace dtrain::cuda
