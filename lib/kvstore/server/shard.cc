#include "kvstore/server/shard.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <tuple>

#include "base/thread.h"
#include "kvstore/server/shard_slice.h"
#include "kvstore/task_queue.h"

namespace dtrain::kvstore {
namespace {

// A smaller update takes less time than waking a thread.
constexpr uint64_t kOwnThreadElements = 1 << 15;

class BusyTimer {
 public:
  explicit BusyTimer(std::atomic<int64_t>& sum_ns) : sum_ns_(sum_ns), since_(std::chrono::steady_clock::now()) {}
  ~BusyTimer() {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - since_);
    sum_ns_.fetch_add(ns.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t>& sum_ns_;
  std::chrono::steady_clock::time_point since_;
};

Result<> check(const ShardOptions& options) {
  for (const Slice& slice : options.placement) {
    if (slice.count == 0 || slice.count > UINT32_MAX) {
      return fail(Code::kUsage, "key {} slice {} has {} elements: 1 to {} can be sent", slice.key, slice.part,
                  slice.count, UINT32_MAX);
    }
  }
  if (options.policy.group_of.empty() || options.policy.group_of.size() > UINT16_MAX) {
    return fail(Code::kUsage, "{} workers: 1 to {} can take part", options.policy.group_of.size(), UINT16_MAX);
  }
  return {};
}

}  // namespace

struct Shard::State {
  explicit State(size_t workers) : incarnations(workers) {}
  std::vector<std::atomic<uint64_t>> incarnations;  // by rank; 0: no message yet
  std::atomic<uint64_t> refused = 0;                // messages that reached no slice
  std::atomic<int64_t> busy_ns = 0;
};

Result<std::unique_ptr<Shard>> Shard::create(ShardOptions options) {
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(options.rule.optimizer));
  DT_TRY_VOID(check(options));
  return std::unique_ptr<Shard>(new Shard(std::move(options), slots.size()));
}

Shard::Shard(ShardOptions options, size_t slot_count)
    : options_(std::move(options)), state_(std::make_unique<State>(options_.policy.group_of.size())) {
  for (const Slice& slice : options_.placement) {
    if (slice.server != options_.server) continue;
    const bool reports = slices_.empty() && slice.key < options_.parameters.size();
    slices_.push_back(std::make_unique<ShardSlice>(options_, slice, slot_count, reports));
  }
  std::sort(slices_.begin(), slices_.end(), [](const auto& a, const auto& b) {
    return std::pair(a->slice().key, a->slice().part) < std::pair(b->slice().key, b->slice().part);
  });
  tasks_ = std::make_unique<TaskQueue>(options_.threads, "shard");
}

Shard::~Shard() = default;

ShardSlice* Shard::find(uint32_t key, uint32_t part) const {
  const auto at =
      std::lower_bound(slices_.begin(), slices_.end(), std::pair(key, part),
                       [](const auto& s, const auto& id) { return std::pair(s->slice().key, s->slice().part) < id; });
  if (at == slices_.end() || (*at)->slice().key != key || (*at)->slice().part != part) return nullptr;
  return at->get();
}

void Shard::admit(uint32_t rank, uint64_t incarnation) {
  DT_CHECK(rank < state_->incarnations.size(), "rank {} of {}", rank, state_->incarnations.size());
  state_->incarnations[rank].store(incarnation);
}

bool Shard::may_speak(uint32_t rank, uint64_t incarnation) {
  uint64_t known = 0;
  return state_->incarnations[rank].compare_exchange_strong(known, incarnation) || known == incarnation;
}

void Shard::on_message(const std::shared_ptr<Pipe>& peer, const Header& header, Pieces payload) {
  const BusyTimer timer(state_->busy_ns);
  flush_denormals();  // in a thread of the transport, whose results must have the same bits as all others
  const auto refuse = [&](Status status) {
    state_->refused++;
    answer_without_values({peer, header}, options_.server, status);
  };
  if (header.rank >= state_->incarnations.size()) return refuse(Status::kRejected);
  if (!may_speak(header.rank, header.incarnation)) return refuse(Status::kStaleIncarnation);
  ShardSlice* const slice = find(header.key, header.slice);
  if (slice == nullptr) return refuse(Status::kUnknownKey);
  dispatch(*slice, peer, header, payload);
}

void Shard::dispatch(ShardSlice& slice, const std::shared_ptr<Pipe>& peer, const Header& header, Pieces payload) {
  const Request request{peer, header};
  switch (header.kind) {
    case Kind::kPush:
    case Kind::kPushPull: {
      if (!slice.take_push(request, payload)) return;
      if (slice.slice().count < kOwnThreadElements || options_.threads == 0) return slice.finish_push(request);
      return tasks_->run([this, &slice, request] {
        const BusyTimer timer(state_->busy_ns);
        slice.finish_push(request);
      });
    }
    case Kind::kPull: return slice.pull(request);
    case Kind::kAssign: return slice.assign(request, payload);
    case Kind::kPullState: return slice.pull_state(request);
    case Kind::kRefresh: return slice.refresh(request);
    case Kind::kRegroup: return slice.regroup(request, payload);
    case Kind::kAnswer: return;  // nobody asked for it
  }
}

Result<> Shard::leave(uint32_t rank) {
  DT_CHECK(rank < state_->incarnations.size(), "rank {} of {}", rank, state_->incarnations.size());
  Result<> result;
  for (const auto& slice : slices_) {
    Result<> of_slice = slice->leave(rank);
    if (result && !of_slice) result = std::move(of_slice);
  }
  return result;
}

void Shard::join(uint32_t rank, uint64_t step) {
  DT_CHECK(rank < state_->incarnations.size(), "rank {} of {}", rank, state_->incarnations.size());
  for (const auto& slice : slices_) slice->join(rank, step);
}

std::vector<std::string> Shard::overdue(double seconds) const {
  std::vector<std::string> lines;
  for (const auto& slice : slices_) slice->overdue(seconds, lines);
  return lines;
}

std::optional<Error> Shard::failure() const {
  return tasks_->failure();
}

ShardCounts Shard::counts() const {
  ShardCounts sum;
  sum.refused = state_->refused;
  sum.busy_s = static_cast<double>(state_->busy_ns) * 1e-9;
  for (const auto& slice : slices_) {
    const ShardCounts counts = slice->counts();
    sum.pushes += counts.pushes;
    sum.duplicates += counts.duplicates;
    sum.late += counts.late;
    sum.refused += counts.refused;
    sum.updates += counts.updates;
    if (!counts.staleness.empty()) sum.staleness = counts.staleness;
  }
  return sum;
}

}  // namespace dtrain::kvstore
