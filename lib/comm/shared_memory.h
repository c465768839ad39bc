// A group of the devices of one process: they read and write each other's arrays. distributed.md 1.2, R-S4.
//
// Sums are taken over ranks 0, 1, ... size-1, left to right, in float32: ((g0 + g1) + g2) + ... Their bits depend on
// the arrays alone: not on the operation (all_reduce, reduce_scatter, reduce), not on who comes first. All ranks work:
// each takes a stripe of the array and does it for everybody. An operation copies nothing that it need not and takes
// no memory.
//
// Threads: one calls at each end, cancel apart. All of them either call flush_denormals or none: a sum is made by
// whichever rank has the stripe. Nobody spins; a rank that waits leaves its core to the others.
//
// Errors, after which the group is of no further use, for all ranks alike:
// - A rank does not come to an operation within the limit, or its end is destroyed: Code::kPeerLost names the ranks
//   that are missing. Only coming is limited: once all have come nobody waits for anything from outside.
// - cancel: what it was given. An operation that all have come to is finished first, since its arrays are in use.
// - Different operations, lengths or roots, or a root that there is not: a bug, and every rank throws CheckFailed.
//
// An operation without elements is a barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/collective.h"

namespace dtrain::comm {

struct SharedMemoryOptions {
  double wait_limit_s = 300;  // for a rank to come
};

// The ends of ranks 0 .. size-1; size >= 1. They may be destroyed in any order, each when it is in no operation.
std::vector<std::unique_ptr<Collective>> make_shared_memory_group(uint32_t size, SharedMemoryOptions options);

}  // namespace dtrain::comm
