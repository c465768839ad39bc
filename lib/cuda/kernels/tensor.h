// Conventions of all kernels in this directory:
//
// Layout: NHWC. A map [n, c, h, w] is `rows` = n*h*w pixels of `channels` values each; a batch of vectors has one row
// per image. Consecutive rows are `pitch` elements apart. The pitch is larger than the channels for a slice of a
// Concat, so that a kernel can write its slice in place and no copy is needed. Tensors that a single kernel reads or
// writes as a whole are dense pointers.
//
// Numbers: stored as `Type`, computed in float32. Per-channel parameters, their gradients, statistics and probabilities
// are also stored in float32. No operation contracts a multiplication and an addition (compiled with -fmad=false), and
// no sum depends on the number of multiprocessors or on the order in which threads run, so every run on every device
// gives the same bits. If a sum has the order of the reference backend, float32 results equal the reference's bit for
// bit.
//
// Speed: these kernels are limited by memory bandwidth. Threads move 16 bytes at a time if pointers, pitches and
// channels are multiples of 16 bytes; otherwise they move single elements.
//
// Memory: pointers are device pointers unless stated otherwise, borrowed until the stream has completed the work. An
// input may be the output of an elementwise operation, which then works in place; otherwise memory must not overlap.
//
// Workspaces and counters: operations in one stream may share them. A workspace may have any content. Counters must be
// zero before the first operation, and nothing else may write to them; every operation leaves them at zero. They record
// which of a kernel's blocks have finished, so two kernels that may run at the same time must not share them.
//
// Errors: invalid sizes and pointers, which only a bug can cause, throw CheckFailed; a launch that fails throws
// DeviceError. "Bytes" in the headers is the amount that a Launch records: device memory read and written, each byte
// counted once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "tensor/type.h"

namespace dtrain::cuda {

// Rows to read, and rows to write. A pitch of 0 means the number of channels of the operation (dense).
struct In {
  const void* data = nullptr;
  int64_t pitch = 0;
};
struct Out {
  void* data = nullptr;
  int64_t pitch = 0;
};

}  // namespace dtrain::cuda
