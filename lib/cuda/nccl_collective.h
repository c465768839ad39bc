// comm::Collective over NCCL: what the spans point to is memory of the rank's device. Which NCCL there is, and that
// there is one, is known to nccl_collective.cc alone. distributed.md 1.2 (stores nccl, nccl_allreduce,
// dist_device_sync).
//
// Sums are in NCCL's order: the same in every run with the same ranks on the same machines, but not the order of the
// other Collectives. Never ran on more than what the test's machine has: see test/cuda/nccl_collective_test.cc.
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

// What the ranks of one process have in common, so that cancel() on one of them reaches all.
class NcclProcess;
std::shared_ptr<NcclProcess> make_nccl_process();
// As Collective's cancel on any of its ranks, also while they join.
void cancel(NcclProcess& process, const Error& error);

struct NcclRank {
  uint32_t rank = 0;
  uint32_t size = 1;
  cudaStream_t stream = nullptr;         // where the operations are enqueued; outlives the group
  std::shared_ptr<NcclProcess> process;  // the same for all ranks of this process; null: this one is alone
  // Within these, or an Error: all ranks have joined; an operation is done. (With enqueue_only nobody waits for the
  // stream, and operation_limit bounds only how long NCCL takes to enqueue.)
  std::chrono::milliseconds join_limit{120'000};
  std::chrono::milliseconds operation_limit{300'000};
  // false: an operation returns when the sums are in the arrays, as Collective says. true: it returns when the work is
  // on the stream, and the array belongs to the group until the stream has passed it: for steps that go on there, and
  // for capture in a CUDA graph (run each operation once before: the first one makes connections).
  bool enqueue_only = false;
};

// The group's name: 128 bytes, made by the first process and told to all `processes` through the exchange. Needs no
// device. Code::kStartup: what came is none; what the exchange returned.
Result<std::string> agree_on_nccl_id(uint32_t process, uint32_t processes, const comm::Exchange& exchange);

// Called by every rank with the group's name, on a thread whose current device is the rank's. Code::kStartup if the
// ranks did not come together, kDevice for what NCCL says of the device. Errors of operations: kPeerLost (NCCL does not
// say which rank it is), and DeviceError for a broken device. Destroying a group does not wait for the others.
Result<std::unique_ptr<comm::Collective>> join_nccl(const NcclRank& rank, const std::string& id);

// The same for a rank that works in a store's stream, which outlives the group: operations are only enqueued, and not
// at all where a graph holds them. While the host waits for the stream, operation_limit holds, and an error of a peer
// ends the wait. `rank.stream` and enqueue_only do not count.
Result<std::unique_ptr<comm::Collective>> join_nccl(NcclRank rank, std::shared_ptr<StoreStream> store,
                                                    const std::string& id);

}  // namespace dtrain::cuda
