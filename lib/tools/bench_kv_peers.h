// The other ends of `bench kv`: servers, further workers, and the baseline's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/bench_kv_plan.h"

namespace dtrain::tools {

// Something that runs beside this thread and ends with this value.
class KvPeer {
 public:
  virtual ~KvPeer() = default;
};

// Runs until `stopped` returns, which it does when the KvPeer goes; `ready` hands this side one number, once.
using KvWork =
    std::function<Result<>(const std::function<void(uint16_t)>& ready, const std::function<void()>& stopped)>;

struct KvStarted {
  std::unique_ptr<KvPeer> peer;
  uint16_t number = 0;
};
// As a process of its own (which must happen before this one has threads: fork copies only one) or as a thread. Returns
// when `ready` was called. Code::kStartup: it ended before.
Result<KvStarted> start_peer(bool process, KvWork work);

// This process can still be copied.
bool is_single_threaded();

// A server: listens, hands out its port, serves the plan's slices of its rank.
KvWork serve_slices(const KvPlan& plan, uint32_t server);
// The server of rpc/baseline.h, for all of the plan's bytes.
KvWork serve_baseline(const KvPlan& plan);

// A worker's store with its pipes.
class KvWorker {
 public:
  static Result<std::unique_ptr<KvWorker>> connect(const KvPlan& plan, uint32_t worker,
                                                   const std::vector<uint16_t>& server_ports);
  virtual ~KvWorker() = default;
  // Gradients of `step` out, last bucket first; new weights back, first bucket first. Without the small bucket.
  virtual Result<> exchange(uint64_t step) = 0;
  virtual Result<> exchange_small(uint64_t step) = 0;
  [[nodiscard]] virtual const ParameterView& view() const = 0;
};

// A further worker: `batches` and `small` exchanges.
KvWork work_along(const KvPlan& plan, uint32_t worker, std::vector<uint16_t> server_ports, uint64_t batches,
                  uint64_t small);

}  // namespace dtrain::tools
