// comm::Collective over NCCL, for arrays in the memory of the rank's device. Only nccl_collective.cc depends on NCCL.
// Used by the stores nccl, nccl_allreduce and dist_device_sync.
//
// NCCL chooses the order of summation: it is the same in every run with the same ranks on the same hosts, but differs
// from that of the other Collectives. This class has never run on more than one device, except on emulated ones.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/collective.h"
#include "comm/exchange.h"
#include "cuda/runtime/store_stream.h"

namespace dtrain::cuda {

// Shared by the ranks of one process, so that cancel() on one of them reaches all.
class NcclProcess;
std::shared_ptr<NcclProcess> make_nccl_process();
// Has the effect of Collective::cancel on any rank of the process. Also works while the ranks join.
void cancel(NcclProcess& process, const Error& error);

struct NcclRank {
  uint32_t rank = 0;
  uint32_t size = 1;
  cudaStream_t stream = nullptr;         // where the operations are enqueued; must outlive the group
  std::shared_ptr<NcclProcess> process;  // shared by all ranks of this process; null: this rank is alone
  // Time limits for all ranks to join, and for an operation to complete; exceeding one of them gives an Error. (With
  // enqueue_only nothing waits for the stream, so operation_limit only bounds how long NCCL takes to enqueue.) The last
  // limit, end_limit, is for all ranks to complete their work at a regular end; exceeding it aborts the group.
  std::chrono::milliseconds join_limit{120'000};
  // The limit of an operation is long, because the scheduler detects lost workers earlier.
  std::chrono::milliseconds operation_limit = std::chrono::hours(24);
  std::chrono::milliseconds end_limit{5'000};
  // false: an operation returns when its results are in the arrays, as Collective specifies. true: it returns when the
  // work is queued on the stream, and the array belongs to the group until the stream has completed it. This is for
  // work that continues on the stream, and for capture in a CUDA graph (run each operation once before, because the
  // first run opens connections).
  bool enqueue_only = false;
};

// Returns the id of a new group: 128 bytes, made by the first process and sent to all `processes` through the exchange.
// Needs no device. Code::kStartup if what was received is not an id; errors of the exchange.
Result<std::string> agree_on_nccl_id(uint32_t process, uint32_t processes, const comm::Exchange& exchange);

// Called by every rank with the group's id, in a thread whose current device is the rank's. Code::kStartup if not all
// ranks joined, kDevice for errors that NCCL reports about the device. Operations fail with kPeerLost, which does not
// name the rank because NCCL does not report it, or throw DeviceError for a broken device. cancel() only records the
// error. The thread that waits for the stream must end the device's work, so it must wait with StoreStream::wait.
// Graphs that contain the group's work must be destroyed before the group is. Destroying the last group of a process
// waits until all its groups have ended, but not much longer than end_limit.
Result<std::unique_ptr<comm::Collective>> join_nccl(const NcclRank& rank, const std::string& id);

// Like join_nccl above, for a rank that works in a store's stream, which must outlive the group. Operations are only
// enqueued, and not even enqueued if a graph contains them. While the host waits for the stream, operation_limit
// applies, and an error of a peer ends the wait. `rank.stream` and `rank.enqueue_only` are ignored.
Result<std::unique_ptr<comm::Collective>> join_nccl(NcclRank rank, std::shared_ptr<StoreStream> store,
                                                    const std::string& id);

// NCCL's version, such as "2.27.3"; empty if this build has no NCCL.
std::string nccl_version();

}  // namespace dtrain::cuda
