// The peers of `bench kv`: the servers, the workers other than the first, and the server of the baseline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/kv_plan.h"

namespace dtrain::bench {

// What a process has used since its start.
struct KvUse {
  double cpu_s = 0;         // processor time
  uint64_t peak_bytes = 0;  // the largest memory that was in use at one time
};

// A peer that runs concurrently with this thread. The destructor stops it.
class KvPeer {
 public:
  virtual ~KvPeer() = default;
  // Nullopt for a thread, whose use cannot be told from that of the other threads.
  [[nodiscard]] virtual std::optional<KvUse> use() const { return std::nullopt; }
};

// The function that a peer runs. It must call `ready` once, with a number that start_peer() returns to its caller
// (KvStarted::number). It must then call `stopped`, which returns when the KvPeer is destroyed, and return after that.
using KvWork =
    std::function<Result<>(const std::function<void(uint16_t)>& ready, const std::function<void()>& stopped)>;

struct KvStarted {
  std::unique_ptr<KvPeer> peer;
  uint16_t number = 0;
};
// Starts a peer as a process or as a thread, and returns as soon as the peer has called `ready`. A process must be
// started before this process has other threads, because fork copies only the calling thread. Code::kStartup: the peer
// ended before it was ready.
Result<KvStarted> start_peer(bool process, KvWork work);

// True if this process can still be forked safely, because it has a single thread.
bool is_single_threaded();

// The work of a server: it listens, reports its port, and serves those slices of the plan that belong to its rank.
KvWork serve_slices(const KvPlan& plan, uint32_t server);
// The work of the baseline's server (unary_calls.h), which serves all bytes of the plan.
KvWork serve_baseline(const KvPlan& plan);

// The store of a worker and its connections to the servers.
class KvWorker {
 public:
  static Result<std::unique_ptr<KvWorker>> connect(const KvPlan& plan, uint32_t worker,
                                                   const std::vector<uint16_t>& server_ports);
  virtual ~KvWorker() = default;
  // Sends the gradients of `step`, beginning with the last bucket, and receives the new weights, beginning with the
  // first bucket. Leaves out the bucket with the small key.
  virtual Result<> exchange(uint64_t step) = 0;
  virtual Result<> exchange_small(uint64_t step) = 0;
  [[nodiscard]] virtual const ParameterView& view() const = 0;
};

// The work of a worker other than the first, which makes `batches` exchanges, and `small` exchanges of the small key.
KvWork work_along(const KvPlan& plan, uint32_t worker, std::vector<uint16_t> server_ports, uint64_t batches,
                  uint64_t small);

}  // namespace dtrain::bench
