// Runs the kernels of lib/cuda/kernels on the host, so that they can be tested without a GPU, a driver or CUDA.
//
// The host's compiler compiles the same .cu files: the headers in include/ replace CUDA's and define what the kernels
// use. This directory's definition of launch_kernel (runtime/launch.h) runs a kernel block by block. The threads of a
// block are fibers that yield to each other at __syncthreads and at the shuffles of a warp.
//
// Errors that this detects: wrong results (the arithmetic is the same, IEEE float32 without contraction; functions such
// as exp differ by about one unit in the last place); memory accesses that AddressSanitizer or UBSan rejects, including
// misaligned wide ones; launches that a device would refuse; streams, events and copies of memory that belong to
// another device; barriers that not all threads reach; and blocks that count themselves as finished before their
// results are visible to other blocks. On a device, threads between two barriers run in no defined order, and neither
// do blocks. Here the seed determines the order; results that depend on it reveal a missing barrier or a race. Not
// covered: speed, and the code that CUDA's compiler generates.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/runtime/launch.h"

namespace dtrain::cuda::emulator {

struct Record {
  std::string name;
  Dim grid, block;
  int64_t bytes = 0;
};

// While it exists, launches of this thread are recorded in it and run in the order of its seed: with 0 threads and
// blocks run in ascending order, with 1 in descending order, with other seeds in random order. Without a session,
// launches run in the order of seed 0.
class Session {
 public:
  explicit Session(uint64_t seed = 0);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  [[nodiscard]] const std::vector<Record>& records() const { return records_; }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  void add(Record record) { records_.push_back(std::move(record)); }

 private:
  uint64_t seed_;
  Session* previous_;
  std::vector<Record> records_;
};

// Adds a record to this thread's session, if there is one. For replacements of libraries.
void record(Record record);

// Runs `work` in the order of the stream; while the stream is being captured, adds it to the graph instead. With
// `ready`, the stream stands still there until ready() is true, like a device whose kernel waits for another device: an
// event after it has not occurred, and calls that wait for it block. A graph owns `held` until it is destroyed.
void queue(cudaStream_t stream, std::function<void()> work, std::function<bool()> ready = nullptr,
           std::shared_ptr<void> held = nullptr);

// A kernel can be launched only in a stream of the current device. Throws DeviceError otherwise.
void check_device(cudaStream_t stream);

// While it exists, work that this thread queues in streams runs as late as the events between streams and the host's
// waits allow. So work that should wait for other work and does not runs too early. Without it, work runs when it is
// queued. Its destructor runs all remaining work. With seed 0 every stream is late; other seeds select streams at
// random, so that work in the other streams runs too early if it does not wait.
class LateStreams {
 public:
  explicit LateStreams(uint64_t seed = 0);
  LateStreams(const LateStreams&) = delete;
  LateStreams& operator=(const LateStreams&) = delete;
  ~LateStreams();
};

// While it exists, work that this thread queues outside of captures is recorded, but does not run. For the bytes and
// launches of programs that are too large to run here.
class RecordOnly {
 public:
  RecordOnly();
  RecordOnly(const RecordOnly&) = delete;
  RecordOnly& operator=(const RecordOnly&) = delete;
  ~RecordOnly();
};

// How many times this process has called a function that waits for a device: synchronization of an event, a stream or
// the device; and how many graphs it has launched.
uint64_t host_waits();
uint64_t graph_launches();

// How many events with timing this thread has recorded.
uint64_t timed_events();

// Makes a runtime call of this thread return this cudaError_t: of those that can fail, the next one, or the one after
// `others` other calls. Calls of destructors cannot. failed() tells whether that call has come.
void fail_next_call(int error, uint64_t others = 0);
bool failed();

// Makes a kernel of this thread, the one after `others` other kernels, end with this cudaError_t. Its launch succeeds.
// From then on the device runs nothing, and each call for it that can fail returns the error, until recover_devices().
// faulted() tells whether that kernel has come.
void fault_kernel(int error, uint64_t others = 0);
bool faulted();
void recover_devices();
// Called before a kernel runs on the device: whether it runs.
bool may_run(int device);
int current();

}  // namespace dtrain::cuda::emulator
