#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "emulator.h"

namespace {

thread_local cudaError_t next_error = cudaSuccess;

cudaError_t outcome() {
  return std::exchange(next_error, cudaSuccess);
}

cudaError_t allocate(void** memory, size_t bytes) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  // The very size, so that AddressSanitizer sees what lies past the end.
  constexpr size_t kAlignment = 256;
  if (posix_memalign(memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xCD, bytes);  // as a device, it promises no zeros
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  std::free(memory);
  return outcome();
}

}  // namespace

struct CUstream_st {};
struct CUevent_st {};

namespace dtrain::cuda::emulator {
void fail_next_call(int error) {
  next_error = static_cast<cudaError_t>(error);
}
}  // namespace dtrain::cuda::emulator

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "invalid argument";
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
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return outcome();
}

cudaError_t cudaDeviceSynchronize() {
  return outcome();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return outcome();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return outcome();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = outcome(); error != cudaSuccess) return error;
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return outcome();
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return outcome();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return outcome();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return outcome();
}
