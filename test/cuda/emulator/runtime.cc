#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <utility>

#include "emulator.h"

using Work = std::function<void()>;

struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

// Of the work ever queued, `done` pieces have run; the rest waits.
struct CUstream_st {
  std::deque<Work> waiting;
  size_t done = 0;
  CUgraph_st* capture = nullptr;

  [[nodiscard]] size_t queued() const { return done + waiting.size(); }
};

// What a stream had queued when the event was recorded.
struct CUevent_st {
  CUstream_st* stream = nullptr;
  size_t queued = 0;
};

namespace {

thread_local cudaError_t next_error = cudaSuccess;
thread_local bool late = false;
thread_local int captures = 0;
thread_local std::set<CUstream_st*> streams;

cudaError_t outcome() {
  return std::exchange(next_error, cudaSuccess);
}

// Runs what the stream has queued, up to its piece number `end`.
void run(CUstream_st* stream, size_t end) {
  while (stream->done < end && !stream->waiting.empty()) {
    const Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    work();
    stream->done++;
  }
}

void run_all() {
  for (CUstream_st* stream : streams) run(stream, stream->queued());
}

// Calls that wait for the device, or may: none of them while a stream of the thread is captured.
cudaError_t synchronise() {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  run_all();
  return outcome();
}

cudaError_t allocate(void** memory, size_t bytes) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  // The very size, so that AddressSanitizer sees what lies past the end.
  constexpr size_t kAlignment = 256;
  if (posix_memalign(memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xCD, bytes);  // as a device, it promises no zeros
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  const cudaError_t error = synchronise();
  std::free(memory);
  return error;
}

}  // namespace

namespace dtrain::cuda::emulator {

void fail_next_call(int error) {
  next_error = static_cast<cudaError_t>(error);
}

void queue(cudaStream_t stream, Work work) {
  if (stream == nullptr) {
    run_all();
    return work();
  }
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
    return;
  }
  stream->waiting.push_back(std::move(work));
  if (!late) run(stream, stream->queued());
}

LateStreams::LateStreams() {
  late = true;
}
LateStreams::~LateStreams() {
  run_all();
  late = false;
}

}  // namespace dtrain::cuda::emulator

using dtrain::cuda::emulator::queue;
using dtrain::cuda::emulator::record;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    default: return "cudaErrorInvalidValue";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    default: return "invalid argument";
  }
}

cudaError_t cudaSetDevice(int) {
  return outcome();
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return allocate(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
  return release(memory);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return allocate(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  return release(memory);
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return outcome();
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  record({"clear", {}, {}, static_cast<int64_t>(bytes)});
  queue(stream, [=] { std::memset(memory, value, bytes); });
  return outcome();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const char* name = kind == cudaMemcpyHostToDevice ? "copy to device" : "copy to host";
  record({name, {}, {}, static_cast<int64_t>(bytes)});
  queue(stream, [=] { std::memcpy(to, from, bytes); });
  return outcome();
}

cudaError_t cudaDeviceSynchronize() {
  return synchronise();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *stream = new CUstream_st;
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (stream == nullptr) return synchronise();
  run(stream, stream->queued());
  return outcome();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  run(stream, stream->queued());
  streams.erase(stream);
  delete stream;
  return outcome();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream != nullptr) *event = {stream, stream->queued()};
  return outcome();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (event->stream != nullptr) run(event->stream, event->queued);
  return outcome();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->stream != nullptr) queue(stream, [recorded = *event] { run(recorded.stream, recorded.queued); });
  return outcome();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return outcome();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  stream->capture = new CUgraph_st;
  captures++;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->capture, nullptr);
  captures--;
  return outcome();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  record({"graph", {}, {}, static_cast<int64_t>(exec->work.size())});
  queue(stream, [exec] {
    for (const Work& work : exec->work) work();
  });
  return outcome();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return outcome();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return outcome();
}
