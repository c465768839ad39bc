// Work that is queued repeatedly. The first time, it is queued directly. The second time, it is captured as a CUDA
// graph, which is then replayed. That costs the host one call instead of hundreds.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

using CudaGraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

enum class QueueMode {
  kQueue,    // queue the work
  kCapture,  // queue the work; it runs only after all of it was captured
  kReplay,   // queue nothing; the graph contains the work and runs afterwards
};

class RecordedWork {
 public:
  // How the next run will queue the work. The second run captures it. The first run does not, because libraries may
  // still load their kernels and open connections in it.
  [[nodiscard]] QueueMode next() const {
    if (graph_.get() != nullptr) return QueueMode::kReplay;
    return has_run_ ? QueueMode::kCapture : QueueMode::kQueue;
  }

  // work(mode) -> Result<> must do what the mode requires, in `stream` and in streams that events join with `stream` at
  // both ends. If it returns an Error, nothing runs, and this function returns the Error. Throws DeviceError, with the
  // failed call, if the work cannot be captured.
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
  // Makes a stream record its work instead of running it, until finish() or the destructor. So a call that fails in
  // between does not leave the stream recording.
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
