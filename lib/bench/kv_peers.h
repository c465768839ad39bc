// The peers of `bench kv`: servers, further workers, and the baseline's server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/kv_plan.h"

namespace dtrain::bench {

// A peer that runs concurrently with this thread. Destroying it stops it.
class KvPeer {
 public:
  virtual ~KvPeer() = default;
};

// The work of a peer. It runs until `stopped` returns, which happens when the KvPeer is destroyed. It calls `ready`
// once, with a number for the starting side.
using KvWork =
    std::function<Result<>(const std::function<void(uint16_t)>& ready, const std::function<void()>& stopped)>;

struct KvStarted {
  std::unique_ptr<KvPeer> peer;
  uint16_t number = 0;
};
// Starts a peer as a process or as a thread, and returns when the peer has called `ready`. A process must be started
// before this process has other threads, because fork copies only one. Code::kStartup: the peer ended before it was
// ready.
Result<KvStarted> start_peer(bool process, KvWork work);

// True if this process can still be forked safely.
bool is_single_threaded();

// A server: listens, reports its port, and serves the slices of the plan that belong to its rank.
KvWork serve_slices(const KvPlan& plan, uint32_t server);
// The server of unary_calls.h, for all bytes of the plan.
KvWork serve_baseline(const KvPlan& plan);

// A worker's store with its connections to the servers.
class KvWorker {
 public:
  static Result<std::unique_ptr<KvWorker>> connect(const KvPlan& plan, uint32_t worker,
                                                   const std::vector<uint16_t>& server_ports);
  virtual ~KvWorker() = default;
  // Sends the gradients of `step`, the last bucket first, and receives the new weights, the first bucket first. The
  // small bucket is excluded.
  virtual Result<> exchange(uint64_t step) = 0;
  virtual Result<> exchange_small(uint64_t step) = 0;
  [[nodiscard]] virtual const ParameterView& view() const = 0;
};

// A further worker, which makes `batches` exchanges and `small` exchanges of the small key.
KvWork work_along(const KvPlan& plan, uint32_t worker, std::vector<uint16_t> server_ports, uint64_t batches,
                  uint64_t small);

}  // namespace dtrain::bench
