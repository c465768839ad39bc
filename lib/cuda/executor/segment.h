// Calls that are queued together, one after the other: as they are the first time, then captured as a CUDA graph and
// from then on replayed, which costs the host one call instead of hundreds.
#pragma once

#include <vector>

#include "cuda/executor/program.h"
#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

using CudaGraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

class Segment {
 public:
  explicit Segment(std::vector<Call> calls) : calls_(std::move(calls)) {}

  // Queues the calls. The second run captures them: not the first, in which libraries may still load their kernels.
  // DeviceError, with the call that failed, if they cannot be captured.
  void run(cudaStream_t stream);

 private:
  void capture(cudaStream_t stream);

  std::vector<Call> calls_;
  bool has_run_ = false;
  CudaGraphExec graph_;
};

}  // namespace dtrain::cuda
