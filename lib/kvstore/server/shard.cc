#include "kvstore/server/shard.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/thread.h"
#include "kvstore/server/shard_slice.h"
#include "kvstore/task_queue.h"
#include "telemetry/tracer.h"

namespace dtrain::kvstore {
namespace {

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
    if (slice.count == 0 || slice.count > kSliceElementsMax) {
      return fail(Code::kUsage, "key {} slice {} has {} elements, but a slice must have from 1 to {}", slice.key,
                  slice.part, slice.count, kSliceElementsMax);
    }
  }
  if (!options.sums_only && optim::uses_norms(options.rule.optimizer)) {
    return fail(Code::kUsage, "a shard holds only slices of arrays, but {} needs the norms of whole arrays",
                options.rule.optimizer.name);
  }
  if (options.policy.group_of.empty()) return fail(Code::kUsage, "a shard needs at least one worker");
  if (options.sums_only && options.snapshots.every > 0) {
    return fail(Code::kUsage,
                "servers take no snapshots if the workers update the weights, which are on the workers then");
  }
  return {};
}

SnapshotLayout layout_of(const ShardOptions& options, size_t slot_count) {
  SnapshotLayout layout{.job = options.snapshots.job,
                        .server = options.server,
                        .every = options.snapshots.every,
                        .workers = static_cast<uint32_t>(options.policy.group_of.size()),
                        .states = static_cast<uint32_t>(slot_count),
                        .slices = {}};
  for (const Slice& slice : options.placement) {
    if (slice.server == options.server && slice.key < options.parameters.size()) layout.slices.push_back(slice);
  }
  std::ranges::sort(layout.slices, {}, [](const Slice& slice) { return SliceId{slice.key, slice.part}; });
  return layout;
}

}  // namespace

constexpr uint64_t kNobody = UINT64_MAX;

struct Shard::State {
  explicit State(size_t workers) : incarnations(workers) {}
  // The accepted incarnation of each worker, indexed by rank; 0: no message yet; kNobody: none, because it has left.
  std::vector<std::atomic<uint64_t>> incarnations;
  std::atomic<uint64_t> refused = 0;  // messages that reached no slice
  std::atomic<int> handled = 0;       // messages with which threads are dealing now
  std::atomic<int64_t> busy_ns = 0;
  std::atomic<bool> is_damaged = false;  // set under a slice's lock when an exception leaves that slice
  std::atomic<bool> is_reported = false;
};

Result<std::unique_ptr<Shard>> Shard::create(ShardOptions options) {
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(options.rule.optimizer));
  DT_TRY_VOID(check(options));
  std::unique_ptr<Shard> shard(new Shard(std::move(options)));
  DT_TRY_VOID(shard->open(slots.size()));
  return shard;
}

Shard::Shard(ShardOptions options)
    : options_(std::move(options)), state_(std::make_unique<State>(options_.policy.group_of.size())) {}

Result<> Shard::open(size_t slot_count) {
  SnapshotLayout layout = layout_of(options_, slot_count);
  if (options_.snapshots.every > 0 && !layout.slices.empty()) {
    const size_t kept = snapshots_kept(options_.policy, options_.snapshots.every);
    DT_TRY(snapshots_, Snapshots::open(options_.snapshots, std::move(layout), kept, [this] { send_held_answers(); }));
  }
  for (const Slice& slice : options_.placement) {
    if (slice.server != options_.server) continue;
    const bool reports = slices_.empty() && slice.key < options_.parameters.size();
    slices_.push_back(
        std::make_unique<ShardSlice>(options_, slice, slot_count, reports, state_->is_damaged, snapshots_.get()));
  }
  std::sort(slices_.begin(), slices_.end(), [](const auto& a, const auto& b) {
    return std::pair(a->slice().key, a->slice().part) < std::pair(b->slice().key, b->slice().part);
  });
  tasks_ = std::make_unique<TaskQueue>(options_.threads, "shard", [this](const Error& error) { stop_with(error); });
  return {};
}

// The thread of the snapshots uses the tasks, whose threads use the slices, which use the snapshots.
Shard::~Shard() {
  if (snapshots_) snapshots_->stop();
}

ShardSlice* Shard::find(SliceId id) const {
  const auto id_of = [](const std::unique_ptr<ShardSlice>& s) { return SliceId{s->slice().key, s->slice().part}; };
  const auto at = std::ranges::lower_bound(slices_, id, {}, id_of);
  return at == slices_.end() || id_of(*at) != id ? nullptr : at->get();
}

void Shard::admit(uint32_t rank, uint64_t incarnation) {
  DT_CHECK(rank < state_->incarnations.size(), "rank {} of {}", rank, state_->incarnations.size());
  state_->incarnations[rank].store(incarnation);
}

bool Shard::may_speak(const Sender& sender) {
  if (sender.incarnation == kNobody) return false;
  uint64_t known = 0;
  return state_->incarnations[sender.rank].compare_exchange_strong(known, sender.incarnation) ||
         known == sender.incarnation;
}

Status Shard::objection(const Sender& sender, SliceId id) {
  if (sender.rank >= state_->incarnations.size()) return Status::kRejected;
  if (!may_speak(sender)) return Status::kStaleIncarnation;
  return find(id) == nullptr ? Status::kUnknownKey : Status::kOk;
}

void Shard::stop_with(const Error& error) {
  state_->is_damaged = true;
  if (!state_->is_reported.exchange(true) && options_.on_failure) options_.on_failure(error);
}

template <class Work>
void Shard::stop_on_exception(Work&& work) {
  const Result<> outcome = catching(
      [&]() -> Result<> {
        work();
        return {};
      },
      "a gradient or weights");
  if (!outcome) stop_with(outcome.error());
}

void Shard::on_message(const std::shared_ptr<Pipe>& peer, const Head& head, Pieces payload) {
  const BusyTimer timer(state_->busy_ns);
  state_->handled++;  // before it is decided whether the sender may speak
  if (!state_->is_damaged) stop_on_exception([&] { handle(peer, head, payload); });
  state_->handled--;
}

void Shard::handle(const std::shared_ptr<Pipe>& peer, const Head& head, Pieces payload) {
  // This runs on a transport's thread. It flushes denormals as all other threads do, so that results have the same
  // bits.
  flush_denormals();
  const std::optional<Sender> sender = sender_of(head);
  if (!sender) return;  // a message without a sender is an answer, which a server never asks for
  const Status why = objection(*sender, slice_of(head));
  if (why != Status::kOk) state_->refused++;
  if (const auto* control = std::get_if<ControlRequest>(&head)) {
    const ControlCall call{peer, *control};
    if (why != Status::kOk) return refuse(call, why);
    ShardSlice& slice = *find(control->id);
    slice.control(call, payload);
    return slice.send_answers();
  }
  const Request request{peer, std::get<Header>(head)};
  why == Status::kOk ? on_data(request, payload) : refuse(request, options_.server, why);
}

void Shard::on_data(const Request& request, Pieces payload) {
  const Header& header = request.header;
  ShardSlice& slice = *find({header.key, header.slice});
  telemetry::Span span(slice.timeline_of(header), "receive a gradient", "wire");
  span.with("worker", header.rank).with("key", header.key).with("slice", header.slice);
  span.arrow(telemetry::ArrowPoint::kPass, telemetry::arrow_of_request(header.rank, header.request));
  switch (request.header.kind) {
    case Kind::kPush: {
      if (slice.push(request, payload)) settle_later(slice);
      break;
    }
    case Kind::kPull: slice.pull(request); break;
    case Kind::kRefresh: slice.refresh(request); break;
    case Kind::kAnswer: break;  // an answer has no sender, so it was discarded above
  }
  slice.send_answers();
}

void Shard::settle_later(ShardSlice& slice) {
  tasks_->run([this, &slice] {
    const BusyTimer timer(state_->busy_ns);
    slice.settle();
    slice.send_answers();
  });
}

// Called by the thread of the snapshots, which may be slow because it runs in the background.
void Shard::send_held_answers() {
  stop_on_exception([&] {
    for (const auto& slice : slices_) {
      if (slice->has_answers()) tasks_->run([&slice] { slice->send_answers(); });
    }
  });
}

void Shard::shut_out_workers() {
  for (std::atomic<uint64_t>& known : state_->incarnations) known = kNobody;
  while (state_->handled > 0) std::this_thread::yield();
}

Result<> Shard::restore(uint64_t number) {
  if (options_.snapshots.every == 0) return fail(Code::kUsage, "the server takes no snapshots that it could restore");
  if (state_->is_damaged) return fail(Code::kInternal, "a failed server cannot restore a snapshot");
  std::vector<SnapshotPart> parts;
  if (snapshots_) {
    DT_TRY(parts, snapshots_->read(number), "restoring snapshot {}", number);
  }
  stop_on_exception([&] {
    auto part = parts.begin();
    for (const auto& slice : slices_) {
      const bool has_part = part != parts.end() && part->id == SliceId{slice->slice().key, slice->slice().part};
      slice->restore(has_part ? &*part++ : nullptr);
    }
  });
  if (state_->is_damaged) return fail(Code::kInternal, "the server failed while it restored snapshot {}", number);
  return snapshots_ ? snapshots_->go_back(number) : Result<>{};
}

Result<> Shard::begin_anew() {
  stop_on_exception([&] {
    for (const auto& slice : slices_) slice->restore(nullptr);
  });
  if (state_->is_damaged) return fail(Code::kInternal, "a failed server cannot begin anew");
  return {};
}

void Shard::leave(uint32_t rank) {
  DT_CHECK(rank < state_->incarnations.size(), "rank {} of {}", rank, state_->incarnations.size());
  admit(rank, kNobody);
  stop_on_exception([&] {
    for (const auto& slice : slices_) {
      slice->leave(rank);
      slice->send_answers();
    }
  });
}

void Shard::join(uint32_t rank, uint64_t step) {
  DT_CHECK(rank < state_->incarnations.size(), "rank {} of {}", rank, state_->incarnations.size());
  stop_on_exception([&] {
    for (const auto& slice : slices_) {
      slice->join(rank, step);
      slice->send_answers();
    }
  });
}

void Shard::discard_snapshots() {
  if (snapshots_) snapshots_->discard();
}

std::vector<std::string> Shard::overdue(double seconds) const {
  using Clock = OverdueWaits::Clock;
  const auto now = Clock::now();
  const auto age = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  OverdueWaits waits;
  for (const auto& slice : slices_) slice->overdue(now - age, waits);
  return waits.lines(now);
}

ShardCounts Shard::counts() const {
  ShardCounts sum;
  sum.refused = state_->refused;
  sum.queued = tasks_->queued();
  sum.busy_s = static_cast<double>(state_->busy_ns) * 1e-9;
  for (const auto& slice : slices_) {
    const ShardCounts counts = slice->counts();
    sum.pushes += counts.pushes;
    sum.duplicates += counts.duplicates;
    sum.late += counts.late;
    sum.refused += counts.refused;
    sum.corrupt += counts.corrupt;
    sum.updates += counts.updates;
    sum.left_out += counts.left_out;
    sum.not_finite += counts.not_finite;
    sum.parked += counts.parked;
    if (!counts.staleness.empty()) sum.staleness = counts.staleness;
    if (!counts.round_s.counts.empty()) sum.round_s = counts.round_s;
    if (!counts.lateness.empty()) sum.lateness = counts.lateness;
  }
  return sum;
}

}  // namespace dtrain::kvstore
