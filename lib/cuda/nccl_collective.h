// comm::Collective over NCCL, for arrays in the memory of the rank's device. Only nccl_collective.cc depends on NCCL.
// Used by the stores nccl, nccl_allreduce and dist_device_sync.
//
// NCCL chooses the order of summation: it is the same in every run with the same ranks on the same hosts, but differs
// from that of the other Collectives. This class has never run on more than one device, except on emulated ones.
//
// A rank (the Collective that join_nccl returns) owns its communicator. Its thread is the one that uses the rank's
// StoreStream. Only this thread calls the rank, except for cancel(), and only this thread ends the communicator. NCCL's
// calls for that block until no CUDA graph contains the group's work, so the rank always drops the graphs first
// (StoreStream::drop_graphs; the DeviceExecutor of the stream has them). How a rank ends:
//
//   what happens                               thread  what it does, in this order
//   cancel(), a failed call, a limit passed    any     records the error for all ranks of the process; nothing else
//   an operation after that                    rank's  returns the error
//   StoreStream::wait after that               rank's  drops the graphs, aborts the communicator and waits for that, at
//                                                      most 5 s; returns the error
//   the rank is destroyed, after an error      rank's  drops the graphs, begins to abort the communicator
//   the rank is destroyed, without an error    rank's  drops the graphs, begins to finalize the communicator, which is
//                                                      then destroyed; or aborted, if the other ranks do not complete
//                                                      their work within end_limit
//   the last rank of a process is destroyed    rank's  waits for the ends of all communicators, at most end_limit + 5 s
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/collective.h"
#include "comm/exchange.h"
#include "cuda/runtime/store_stream.h"

namespace dtrain::cuda {

// What the ranks of a process share: the first error, and the communicators that are ending.
class NcclProcess;
std::shared_ptr<NcclProcess> make_nccl_process();
// Has the effect of Collective::cancel on any rank of the process. Also works while the ranks join.
void cancel(NcclProcess& process, const Error& error);

struct NcclRank {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::shared_ptr<StoreStream> store = nullptr;    // where the operations are queued
  std::shared_ptr<NcclProcess> process = nullptr;  // shared by all ranks of this process; null: this rank is alone
  // Time limits: for all ranks to join; for an operation to be queued, and for the host's wait for the stream; and for
  // all ranks to complete their work at a regular end. The second one is long, because the scheduler detects lost
  // workers earlier.
  std::chrono::milliseconds join_limit{120'000};
  std::chrono::milliseconds operation_limit = std::chrono::hours(24);
  std::chrono::milliseconds end_limit{5'000};
};

// Returns the id of a new group: 128 bytes, made by the first process and sent to all `processes` through the exchange.
// Needs no device. Code::kStartup if what was received is not an id; errors of the exchange.
Result<std::string> agree_on_nccl_id(uint32_t process, uint32_t processes, const comm::Exchange& exchange);

// Called by every rank with the group's id, in a thread whose current device is the rank's. Code::kStartup if not all
// ranks joined, kDevice for errors that NCCL reports about the device.
//
// The rank's operations are only queued, and not even queued if a graph contains them (StoreStream::takes_work). The
// array belongs to the group until the stream has completed the work. (For capture in a CUDA graph, run each operation
// once before, because the first run opens connections.) Operations and StoreStream::wait fail with kPeerLost, which
// does not name the rank because NCCL does not report it, or throw DeviceError for a broken device.
Result<std::unique_ptr<comm::Collective>> join_nccl(NcclRank rank, const std::string& id);

// NCCL's version, such as "2.27.3"; empty if this build has no NCCL.
std::string nccl_version();

}  // namespace dtrain::cuda
