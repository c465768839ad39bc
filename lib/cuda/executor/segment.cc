#include "cuda/executor/segment.h"

#include <cuda_runtime_api.h>

namespace dtrain::cuda {

namespace {

using CudaGraph = Handle<cudaGraph_t, cudaGraphDestroy>;

// A stream that records instead of running, until finish or the end of the object's life: a call that fails in between
// must not leave it so.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Thread-local: other devices' threads go on allocating and copying meanwhile.
    DT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    cudaGraph_t raw = nullptr;
    if (!finished_ && cudaStreamEndCapture(stream_, &raw) == cudaSuccess) CudaGraph{raw};
  }
  CudaGraph finish() {
    finished_ = true;
    cudaGraph_t raw = nullptr;
    DT_CUDA(cudaStreamEndCapture(stream_, &raw));
    return CudaGraph(raw);
  }

 private:
  cudaStream_t stream_;
  bool finished_ = false;
};

}  // namespace

void Segment::capture(cudaStream_t stream) {
  Capture capture(stream);
  for (const Call& call : calls_) call(stream);
  const CudaGraph graph = capture.finish();
  cudaGraphExec_t raw = nullptr;
  DT_CUDA(cudaGraphInstantiate(&raw, graph.get(), 0));
  graph_ = CudaGraphExec(raw);
}

void Segment::run(cudaStream_t stream) {
  if (calls_.empty()) return;
  if (!has_run_) {
    for (const Call& call : calls_) call(stream);
    has_run_ = true;
    return;
  }
  if (graph_.get() == nullptr) capture(stream);
  DT_CUDA(cudaGraphLaunch(graph_.get(), stream));
}

}  // namespace dtrain::cuda
