#include "cuda/executor/recorded_work.h"

namespace dtrain::cuda {

namespace {

using CudaGraph = Handle<cudaGraph_t, cudaGraphDestroy>;

}  // namespace

RecordedWork::Capture::Capture(cudaStream_t stream) : stream_(stream) {
  // Thread-local mode, because threads of other devices and of NCCL allocate and copy during the capture.
  DT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

RecordedWork::Capture::~Capture() {
  cudaGraph_t raw = nullptr;
  if (!finished_ && cudaStreamEndCapture(stream_, &raw) == cudaSuccess) CudaGraph{raw};
}

CudaGraphExec RecordedWork::Capture::finish() {
  finished_ = true;
  cudaGraph_t raw = nullptr;
  DT_CUDA(cudaStreamEndCapture(stream_, &raw));
  const CudaGraph graph(raw);
  cudaGraphExec_t exec = nullptr;
  DT_CUDA(cudaGraphInstantiate(&exec, graph.get(), 0));
  return CudaGraphExec(exec);
}

}  // namespace dtrain::cuda
