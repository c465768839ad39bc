// How the kernels of this folder see tensors. Said here for all of them:
//
// Layout: NHWC. A map [n, c, h, w] is `rows` = n*h*w pixels of `channels` numbers each; a batch of vectors has a row an
// image. From one row to the next it is `pitch` elements, more than the channels in a slice of a concatenation: who
// writes its slice in place needs no Concat. Tensors that only one kernel reads or writes whole are dense pointers.
//
// Numbers: stored as `Type`, computed in float32. Per-channel parameters, gradients of such, statistics and
// probabilities are float32 in memory too. No operation contracts a multiplication and an addition (compiled with
// -fmad=false), and no sum depends on the number of processors or on the order in which threads run: the same bits in
// every run and on every device. Where sums are in reference's order, float32 gives reference's bits.
//
// Speed: all of this is bound by memory. 16 bytes a thread are read at a time where pointers and pitches are multiples
// of 16 bytes and the channels of 16 bytes' worth; anything else works too, element by element.
//
// Memory: pointers are the device's unless said otherwise, borrowed until the stream has done the work. An input may be
// the output of an elementwise operation, element by element in place; elsewhere they do not overlap.
//
// Errors: sizes and pointers that no caller without a bug gives are CheckFailed, a launch that fails is a DeviceError.
// "Bytes" in the headers is what a Launch is recorded with: device memory read and written, each byte counted once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "tensor/type.h"

namespace dtrain::cuda {

// Rows to read, and rows to write. pitch 0: as many elements as the operation has channels (dense).
struct In {
  const void* data = nullptr;
  int64_t pitch = 0;
};
struct Out {
  void* data = nullptr;
  int64_t pitch = 0;
};

}  // namespace dtrain::cuda
