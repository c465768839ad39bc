// A group of the devices of one process, which read and write each other's arrays.
//
// Sums are computed over ranks 0, 1, ... size-1, from left to right, in float32: ((g0 + g1) + g2) + ... The bits of the
// result depend only on the arrays, not on the operation (all_reduce, reduce_scatter, reduce) or the order of arrival.
// All ranks share the work: each computes one stripe of the array for all ranks. An operation makes no unnecessary
// copies and allocates no memory.
//
// Threads: each end is used by one thread at a time, except for cancel. Either all of these threads call
// flush_denormals() or none does, because any rank may compute any part of a sum. Waiting ranks sleep instead of
// spinning.
//
// After any of these errors the group is unusable for all ranks:
// - Code::kPeerLost names the ranks that did not arrive at an operation within the time limit, or whose end was
//   destroyed. Only the arrival is limited: once all have arrived, no rank waits for anything outside the process.
// - After cancel, the error is the one that was given to it. An operation at which all have arrived is finished first,
//   because its arrays are in use.
// - If operations, lengths or roots differ, or the root does not exist, that is a bug: every rank throws CheckFailed.
//
// An operation on zero elements is a barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/collective.h"

namespace dtrain::comm {

struct SharedMemoryOptions {
  double wait_limit_s = 300;  // the longest time that a rank waits for the others to arrive at an operation
};

// Returns the ends of ranks 0 .. size-1; size must be at least 1. They may be destroyed in any order, each while it is
// not in an operation.
std::vector<std::unique_ptr<Collective>> make_shared_memory_group(uint32_t size, SharedMemoryOptions options);

}  // namespace dtrain::comm
