// Runs the kernels of lib/cuda/kernels on the host, so that they are tested where there is no GPU, no driver and no
// CUDA at all.
//
// The very same .cu files are compiled by the host's compiler: the headers in include/ stand in for CUDA's, and define
// what the kernels use of them. This folder's launch_kernel, the seam in runtime/launch.h, then runs a kernel block by
// block; the threads of a block are fibers that give way to each other at __syncthreads and at the shuffles of a warp.
//
// What it shows: results (the arithmetic is the same, IEEE float32 and no contraction; exp and its like differ by a
// unit or so), every access to memory that AddressSanitizer or UBSan objects to, misaligned wide ones among them,
// launches that a device would refuse, and barriers that not all threads reach. What threads do between two barriers,
// and blocks among each other, has no order on a device: here the seed chooses one, and results that depend on it show
// a missing barrier or a race. What it does not show: speed, and what a real compiler makes of the code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/runtime/launch.h"

namespace dtrain::cuda::emulator {

struct Record {
  std::string name;
  Dim grid, block;
  int64_t bytes = 0;
};

// While it lives, launches of this thread are recorded in it and run in the order of its seed: 0 is threads and blocks
// as they are counted, 1 the reverse, others are drawn. Without one, launches run in the order of seed 0.
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

// Adds to the session of this thread, if there is one: for stand-ins of libraries.
void record(Record record);

// Runs work in its turn of a stream; while the stream is captured, puts it into the graph instead.
void queue(cudaStream_t stream, std::function<void()> work);

// While it lives, what this thread queues in streams runs as late as the events between them and the host's waiting
// allow: what should wait for something else, and does not, then comes too early. Without one, all runs at once. What
// is left at its end runs then. seed 0: every stream; others draw which ones, and what those that run at once should
// have waited for comes too late.
class LateStreams {
 public:
  explicit LateStreams(uint64_t seed = 0);
  LateStreams(const LateStreams&) = delete;
  LateStreams& operator=(const LateStreams&) = delete;
  ~LateStreams();
};

// How often this thread has called what waits for the device: synchronisations of an event, a stream or the device.
uint64_t host_waits();

// The next call of the runtime that can fail in this thread does so, with this cudaError_t.
void fail_next_call(int error);

}  // namespace dtrain::cuda::emulator
