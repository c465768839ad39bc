#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cuda/runtime/error.h"
#include "emulator.h"
#include "support/allocation_count.h"

struct Work {
  std::function<void()> run;
  std::function<bool()> ready = nullptr;  // see emulator::queue
  std::shared_ptr<void> held = nullptr;
};

// How much of each stream's captured work must come before something.
using Reached = std::map<CUstream_st*, size_t>;

struct CUgraph_st {
  std::vector<Work> work;  // in an order that the streams and the events between them allow
  Reached queued;          // by participating stream: the one that began the capture, and those that waited for it
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

// `done` pieces of the work queued so far have run; the rest is waiting.
struct CUstream_st {
  int device = 0;
  uint64_t number = 0;  // counts the streams that the thread has made
  std::deque<Work> waiting = {};
  size_t done = 0;
  std::shared_ptr<CUgraph_st> capture = {};
  Reached reached = {};  // during a capture: the work that its next work comes after

  [[nodiscard]] size_t queued() const { return done + waiting.size(); }
};

// What a stream had queued when the event was recorded, in the stream or, during a capture, in the graph.
struct CUevent_st {
  int device = 0;
  bool timing = false;
  std::chrono::steady_clock::time_point reached_at = {};  // with timing: when the stream reached the event
  CUstream_st* stream = nullptr;
  size_t queued = 0;
  std::weak_ptr<CUgraph_st> capture = {};
  bool captured = false;
  Reached reached = {};
};

namespace {

constexpr int kDevices = 4;
constexpr size_t kMemory = size_t{8} << 30;

thread_local cudaError_t next_error = cudaSuccess;
thread_local bool late = false, records_only = false;
thread_local uint64_t late_seed = 0, streams_made = 0, calls_before_error = 0;
thread_local int captures = 0, current_device = 0;
std::atomic<uint64_t> waits = 0, launched_graphs = 0;
thread_local uint64_t timed = 0;
thread_local std::set<CUstream_st*> streams;

bool is_late(const CUstream_st& stream) {
  return late && (late_seed == 0 || dtrain::RandomStream(late_seed, dtrain::Use::kTest, stream.number).below(2) == 0);
}

// The device that owns each piece of device memory, by its first and last address.
class Owners {
 public:
  void add(const void* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    owned_[address(memory)] = {address(memory) + bytes, current_device};
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    owned_.erase(address(memory));
  }
  // Whether the memory is the host's or this device's.
  bool may_use(const void* memory, int device) {
    const std::lock_guard lock(mutex_);
    auto after = owned_.upper_bound(address(memory));
    if (after == owned_.begin()) return true;
    const auto& [end, owner] = std::prev(after)->second;
    return address(memory) >= end || owner == device;
  }

 private:
  static uintptr_t address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

  std::mutex mutex_;
  std::map<uintptr_t, std::pair<uintptr_t, int>> owned_;
};

Owners& owners() {
  static Owners all;
  return all;
}

int device_of(cudaStream_t stream) {
  return stream == nullptr ? current_device : stream->device;
}

std::array<std::atomic<cudaError_t>, kDevices> faults{};  // of each device; cudaSuccess: it works
thread_local cudaError_t next_fault = cudaSuccess;
thread_local uint64_t kernels_before_fault = 0;

cudaError_t outcome() {
  if (const cudaError_t fault = faults[static_cast<size_t>(current_device)]; fault != cudaSuccess) return fault;
  if (next_error == cudaSuccess || calls_before_error-- > 0) return cudaSuccess;
  return std::exchange(next_error, cudaSuccess);
}

// Runs what the stream has queued, up to piece number `end` or to the first piece that is not ready. Whether it has
// reached the end.
bool run(CUstream_st* stream, size_t end) {
  while (stream->done < end && !stream->waiting.empty()) {
    if (stream->waiting.front().ready && !stream->waiting.front().ready()) return false;
    const Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    work.run();
    stream->done++;
  }
  return true;
}

// The same, but waits for pieces that are not ready.
void finish(CUstream_st* stream, size_t end) {
  while (!run(stream, end)) std::this_thread::yield();
}

void run_all() {
  for (CUstream_st* stream : streams) finish(stream, stream->queued());
}

// For calls that wait for the device or may do so. They are not allowed while a stream of the thread is being captured.
cudaError_t synchronise() {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  run_all();
  return outcome();
}

cudaError_t allocate(void** memory, size_t bytes) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  // Allocates exactly this size, so that AddressSanitizer detects accesses beyond the end.
  constexpr size_t kAlignment = 256;
  if (posix_memalign(memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xCD, bytes);  // device memory is not zeroed either
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  const cudaError_t error = synchronise();
  std::free(memory);
  return error;
}

}  // namespace

namespace dtrain::cuda::emulator {

void fail_next_call(int error, uint64_t others) {
  next_error = static_cast<cudaError_t>(error);
  calls_before_error = others;
}

bool failed() {
  return next_error == cudaSuccess;
}

void fault_kernel(int error, uint64_t others) {
  next_fault = static_cast<cudaError_t>(error);
  kernels_before_fault = others;
}

bool faulted() {
  return next_fault == cudaSuccess;
}

void recover_devices() {
  next_fault = cudaSuccess;
  for (auto& fault : faults) fault = cudaSuccess;
}

bool may_run(int device) {
  auto& fault = faults[static_cast<size_t>(device)];
  if (fault == cudaSuccess && next_fault != cudaSuccess && kernels_before_fault-- == 0) {
    fault = std::exchange(next_fault, cudaSuccess);
  }
  return fault == cudaSuccess;
}

int current() {
  return current_device;
}

uint64_t host_waits() {
  return waits;
}

uint64_t graph_launches() {
  return launched_graphs;
}

uint64_t timed_events() {
  return timed;
}

void queue(cudaStream_t stream, std::function<void()> work, std::function<bool()> ready, std::shared_ptr<void> held) {
  if (records_only) return;
  if (stream == nullptr) {
    run_all();
    while (ready && !ready()) std::this_thread::yield();
    return work();
  }
  if (stream->capture != nullptr) {
    stream->capture->work.push_back({std::move(work), std::move(ready), std::move(held)});
    stream->capture->queued[stream]++;
    return;
  }
  stream->waiting.push_back({std::move(work), std::move(ready)});
  if (!is_late(*stream)) run(stream, stream->queued());
}

void check_device(cudaStream_t stream) {
  if (device_of(stream) == current_device) return;
  throw_cuda_error(__FILE__, __LINE__, "a kernel in a stream of another device", cudaErrorInvalidResourceHandle);
}

RecordOnly::RecordOnly() {
  records_only = true;
}
RecordOnly::~RecordOnly() {
  records_only = false;
}

LateStreams::LateStreams(uint64_t seed) {
  late = true;
  late_seed = seed;
}
LateStreams::~LateStreams() {
  run_all();
  late = false;
}

}  // namespace dtrain::cuda::emulator

using dtrain::cuda::emulator::queue;
using dtrain::cuda::emulator::record;
using dtrain::test::PauseCounting;

#define NAME_OF(error) \
  case error: return #error
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    NAME_OF(cudaErrorMemoryAllocation);
    NAME_OF(cudaErrorInsufficientDriver);
    NAME_OF(cudaErrorDevicesUnavailable);
    NAME_OF(cudaErrorNoDevice);
    NAME_OF(cudaErrorInvalidDevice);
    NAME_OF(cudaErrorInvalidResourceHandle);
    NAME_OF(cudaErrorNoKernelImageForDevice);
    NAME_OF(cudaErrorECCUncorrectable);
    NAME_OF(cudaErrorIllegalAddress);
    NAME_OF(cudaErrorLaunchFailure);
    NAME_OF(cudaErrorUnknown);
    NAME_OF(cudaErrorStreamCaptureUnsupported);
    NAME_OF(cudaErrorStreamCaptureUnjoined);
    NAME_OF(cudaErrorStreamCaptureIsolation);
    NAME_OF(cudaErrorCapturedEvent);
    default: return "cudaErrorInvalidValue";
  }
}
#undef NAME_OF
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    default: return "invalid argument";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  const char* const fewer = std::getenv("DTRAIN_EMULATED_GPUS");
  *count = fewer == nullptr ? kDevices : std::atoi(fewer);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device >= kDevices) return cudaErrorInvalidDevice;
  const char* const old = std::getenv("DTRAIN_EMULATED_SM");  // "70"
  const int sm = old == nullptr ? 90 : std::atoi(old);
  *properties = {
      .name = "emulated GPU", .major = sm / 10, .minor = sm % 10, .multiProcessorCount = 1, .totalGlobalMem = kMemory};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  if (device >= kDevices) return cudaErrorInvalidDevice;
  std::snprintf(id, static_cast<size_t>(bytes), "0000:%02X:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  return outcome();
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12020;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = kMemory / 8 * 3;
  *total = kMemory;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const cudaError_t error = allocate(memory, bytes);
  if (error == cudaSuccess) owners().add(*memory, bytes);
  return error;
}
cudaError_t cudaFree(void* memory) {
  owners().remove(memory);
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
  const PauseCounting pause;
  if (!owners().may_use(memory, device_of(stream))) return cudaErrorIllegalAddress;
  record({"clear", {}, {}, static_cast<int64_t>(bytes)});
  queue(stream, [=] { std::memset(memory, value, bytes); });
  return outcome();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const PauseCounting pause;
  const int device = device_of(stream);
  if (!owners().may_use(to, device) || !owners().may_use(from, device)) return cudaErrorIllegalAddress;
  const char* name = kind == cudaMemcpyHostToDevice   ? "copy to device"
                     : kind == cudaMemcpyDeviceToHost ? "copy to host"
                                                      : "copy in device";
  record({name, {}, {}, static_cast<int64_t>(bytes)});
  queue(stream, [=] { std::memcpy(to, from, bytes); });
  return outcome();
}

cudaError_t cudaDeviceSynchronize() {
  waits++;
  return synchronise();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *stream = new CUstream_st{.device = current_device};
  (*stream)->number = streams_made++;
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  waits++;
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (stream == nullptr) return synchronise();
  finish(stream, stream->queued());
  return outcome();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return run(stream, stream->queued()) ? outcome() : cudaErrorNotReady;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  run(stream, stream->queued());
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *event = new CUevent_st{.device = current_device, .timing = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const PauseCounting pause;
  if (stream == nullptr) return outcome();
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  timed += event->timing ? 1 : 0;
  if (event->timing) queue(stream, [event] { event->reached_at = std::chrono::steady_clock::now(); });
  *event = {.device = event->device,
            .timing = event->timing,
            .reached_at = event->reached_at,
            .stream = stream,
            .queued = stream->queued()};
  if (stream->capture != nullptr) {
    event->captured = true;
    event->capture = stream->capture;
    event->reached = stream->reached;
    event->reached[stream] = stream->capture->queued[stream];
  }
  return outcome();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->captured) return cudaErrorCapturedEvent;
  if (event->stream != nullptr && !run(event->stream, event->queued)) return cudaErrorNotReady;
  waits++;  // whoever asks until the event has occurred waits for it
  return outcome();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  waits++;
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (event->captured) return cudaErrorCapturedEvent;
  if (event->stream != nullptr) finish(event->stream, event->queued);
  return outcome();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const PauseCounting pause;
  if (event->captured) {
    const auto capture = event->capture.lock();
    if (capture == nullptr) return cudaErrorCapturedEvent;
    if (stream->capture == nullptr) {
      stream->capture = capture;
      capture->queued.try_emplace(stream, 0);
    }
    if (stream->capture != capture) return cudaErrorStreamCaptureIsolation;
    for (const auto& [other, count] : event->reached) {
      stream->reached[other] = std::max(stream->reached[other], count);
    }
    return outcome();
  }
  if (event->stream == nullptr) return outcome();
  if (stream->capture != nullptr) return cudaErrorStreamCaptureIsolation;
  queue(
      stream, [] {}, [from = event->stream, queued = event->queued] { return run(from, queued); });
  return outcome();
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timing || !end->timing) return cudaErrorInvalidValue;
  *ms = std::chrono::duration<float, std::milli>(end->reached_at - begin->reached_at).count();
  return outcome();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->queued[stream] = 0;
  captures++;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::shared_ptr<CUgraph_st> capture = stream->capture;
  Reached reached = stream->reached;
  reached[stream] = capture->queued[stream];
  bool joined = true;
  for (const auto& [member, count] : capture->queued) {
    joined = joined && reached[member] >= count;
    member->capture = nullptr;
    member->reached.clear();
  }
  captures--;
  *graph = nullptr;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *graph = new CUgraph_st(*capture);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const PauseCounting pause;
  launched_graphs++;
  record({"graph", {}, {}, static_cast<int64_t>(exec->work.size())});
  // A graph may be destroyed while it runs. A running graph is not counted as one that holds: work that waits for other
  // devices ends when it is aborted, and with it the graph.
  for (const Work& work : exec->work) queue(stream, work.run, work.ready);
  return outcome();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
