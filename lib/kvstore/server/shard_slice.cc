#include "kvstore/server/shard_slice.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "telemetry/tracer.h"

namespace dtrain::kvstore {
namespace {

// Slices with at least this many elements are updated by the shard's own threads. A smaller update takes less time than
// waking a thread.
constexpr uint64_t kOwnThreadElements = 1 << 15;

sync::Policy policy_of_key(const ShardOptions& options, uint32_t key) {
  const auto workers = static_cast<uint32_t>(options.policy.group_of.size());
  return key < options.parameters.size() ? options.policy : sync::bsp(workers);
}

// Records an exception that leaves the scope. Under a slice's lock, create the guard after the lock, so that the flag
// is set before another thread can take the lock.
class DamageGuard {
 public:
  explicit DamageGuard(std::atomic<bool>& is_damaged) : is_damaged_(is_damaged) {}
  ~DamageGuard() {
    if (std::uncaught_exceptions() > exceptions_before_) is_damaged_ = true;
  }
  DamageGuard(const DamageGuard&) = delete;
  DamageGuard& operator=(const DamageGuard&) = delete;

 private:
  std::atomic<bool>& is_damaged_;
  const int exceptions_before_ = std::uncaught_exceptions();
};

Snapshots* snapshots_of_key(const ShardOptions& options, uint32_t key, Snapshots* snapshots) {
  return key < options.parameters.size() ? snapshots : nullptr;
}

bool is_apply(const sync::Effect& effect) {
  return std::holds_alternative<sync::Apply>(effect);
}

}  // namespace

ShardSlice::ShardSlice(const ShardOptions& options, const Slice& slice, size_t slot_count, bool reports,
                       std::atomic<bool>& is_damaged, Snapshots* snapshots)
    : options_(options),
      slice_(slice),
      leaves_updates_(options.threads > 0 && slice.count >= kOwnThreadElements),
      is_damaged_(is_damaged),
      snapshots_(snapshots_of_key(options, slice.key, snapshots)),
      outbox_(snapshots_ == nullptr ? nullptr : &snapshots_->limit()),
      policy_(policy_of_key(options, slice.key)),
      values_(options, slice, slot_count) {
  if (reports) record_.emplace(sync::group_count(policy_), Waiters::Clock::now());
}

template <class Work>
void ShardSlice::change(const Work& work) {
  const MutexLock lock(mutex_);
  if (is_damaged_) return;
  const DamageGuard guard(is_damaged_);
  work();
}

bool ShardSlice::holds_slice(Pieces payload) const {
  return byte_count(payload) == slice_.count * sizeof(float);
}

void ShardSlice::count_refusal(uint32_t rank, Status why) {
  counts_.refused++;
  if (why != Status::kCorrupt) return;
  counts_.corrupt++;
  if (options_.on_corrupt) options_.on_corrupt(rank, counts_.corrupt);
}

void ShardSlice::refuse(const Request& request, Status why) {
  count_refusal(request.header.rank, why);
  outbox_.add(request.peer, answer_to(request, options_.server, why));
}

void ShardSlice::refuse(const ControlCall& call, Status why) {
  count_refusal(call.request.rank, why);
  outbox_.add(call.peer, answer_to(call, why));
}

void ShardSlice::acknowledge(const ControlCall& call, Status status) {
  ControlAnswer answer = answer_to(call, status);
  answer.counters = counters();
  outbox_.add(call.peer, answer);
}

// An AssignState has no answer of its own.
void ShardSlice::answer_again(const ControlCall& call) {
  counts_.duplicates++;
  if (!std::holds_alternative<AssignState>(call.request.what)) acknowledge(call, Status::kDuplicate);
}

void ShardSlice::complete(const ControlCall& call) {
  applied_.add(call.request.rank, id_of(call));
  acknowledge(call, Status::kOk);
}

// The following functions handle data messages.

// Adds the gradient to its round's sum, if it belongs to an open round. Returns the status of the answer.
Status ShardSlice::take_gradient(const Header& header, Pieces payload, bool is_intact) {
  if (!machine_) return Status::kUnknownKey;
  if (header.encoding != Encoding::kFloat32 || !holds_slice(payload)) return Status::kBadSize;
  const sync::Effect preview = machine_->preview({header.rank, header.step});
  if (std::holds_alternative<sync::Reject>(preview)) return Status::kRejected;
  if (std::holds_alternative<sync::Drop>(preview)) return Status::kDuplicate;
  if (const auto* add = std::get_if<sync::Add>(&preview)) {
    if (!is_intact) return Status::kCorrupt;
    telemetry::Span span(timeline_of(header), "add", "server");
    span.with("worker", header.rank).with("step", header.step);
    values_.add(add->group, header.rank, header.samples, payload);
  }
  return Status::kOk;
}

bool ShardSlice::push(const Request& request, Pieces payload) {
  const Header& header = request.header;
  const bool is_intact = payload_intact(header.payload_crc, payload);
  bool leaves_update = false;
  change([&]() DT_REQUIRES(mutex_) {
    carry_out_effects();
    const bool is_repeated = machine_ && applied_.contains(header.rank, id_of(header));
    const Status status = is_repeated ? Status::kDuplicate : take_gradient(header, payload, is_intact);
    if (status != Status::kOk && status != Status::kDuplicate) return refuse(request, status);
    if (is_repeated) {
      counts_.duplicates++;
    } else {
      feed(sync::Push{header.rank, header.step});
      applied_.add(header.rank, id_of(header));
    }
    request_weights(request, header.step + 1, status);
    leaves_update = leaves_updates_ && std::ranges::any_of(effects_, is_apply);
    if (!leaves_update) carry_out_effects();
  });
  return leaves_update;
}

void ShardSlice::settle() {
  change([&]() DT_REQUIRES(mutex_) { carry_out_effects(); });
}

void ShardSlice::send_answers() {
  if (is_damaged_) return;
  const DamageGuard guard(is_damaged_);
  outbox_.send_all();
}

void ShardSlice::request_weights(const Request& request, uint64_t step, Status status) {
  waiters_.add(request, step, status);
  feed(sync::Pull{request.header.rank, step});
}

void ShardSlice::pull(const Request& request) {
  change([&]() DT_REQUIRES(mutex_) {
    if (!machine_) {
      waiters_.forget(request.header.rank);
      return waiters_.add(request, request.header.step, Status::kOk);
    }
    carry_out_effects();
    request_weights(request, request.header.step, Status::kOk);
    carry_out_effects();
  });
}

void ShardSlice::refresh(const Request& request) {
  change([&]() DT_REQUIRES(mutex_) {
    if (!machine_) return refuse(request, Status::kUnknownKey);
    carry_out_effects();
    if (applied_.contains(request.header.rank, id_of(request.header))) {
      counts_.duplicates++;
      request_weights(request, request.header.step, Status::kOk);
    } else {
      waiters_.add(request, request.header.step, Status::kOk);
      feed(sync::Refresh{request.header.rank, request.header.step});
      applied_.add(request.header.rank, id_of(request.header));
    }
    carry_out_effects();
  });
}

// The following functions give events to the state machine and carry out its decisions.

void ShardSlice::feed(const sync::Event& event) {
  decided_.clear();
  machine_->on(event, decided_);
  if (options_.event_log != nullptr) options_.event_log->event({slice_.key, slice_.part}, event, decided_);
  for (const sync::Effect& effect : decided_) {
    if (!std::holds_alternative<sync::Reject>(effect)) {
      effects_.push_back(effect);
    } else if (const auto* pull = std::get_if<sync::Pull>(&event)) {
      refuse_waiter(pull->worker, pull->step);
    } else if (const auto* refresh = std::get_if<sync::Refresh>(&event)) {
      refuse_waiter(refresh->worker, refresh->step);
    }
  }
}

void ShardSlice::carry_out_effects() {
  if (effects_.empty()) return;
  std::vector<sync::Effect> effects = std::move(effects_);
  effects_.clear();
  for (const sync::Effect& effect : effects) carry_out(effect);
  // Without snapshots, each Keep belongs to the answers that follow it, and these have been made.
  for (const sync::Effect& effect : effects) {
    const auto* keep = std::get_if<sync::Keep>(&effect);
    if (keep != nullptr && !policy_.snapshots) values_.release(keep->group);
  }
  effects.clear();
  effects_ = std::move(effects);  // keeps the vector's memory for the next call
}

void ShardSlice::carry_out(const sync::Effect& effect) {
  if (const auto* add = std::get_if<sync::Add>(&effect)) {
    counts_.pushes++;
    if (record_) record_->on_add(add->group, add->worker, Waiters::Clock::now());
  } else if (std::holds_alternative<sync::Drop>(effect)) {
    counts_.duplicates++;
  } else if (std::holds_alternative<sync::Late>(effect)) {
    counts_.late++;
  } else if (const auto* apply = std::get_if<sync::Apply>(&effect)) {
    count_round(this->apply(*apply));
    take_part();
    if (record_) report_update(apply->group, apply->staleness);
  } else if (const auto* keep = std::get_if<sync::Keep>(&effect)) {
    values_.keep(keep->group);
  } else if (const auto* answer = std::get_if<sync::Answer>(&effect)) {
    answer_waiter(*answer);
  }
}

// The timeline on which the work for a worker's step is recorded. Null for statistics, because only gradients are
// numbered by training steps.
telemetry::Timeline* ShardSlice::timeline_of(const Header& header) const {
  const bool is_gradient = header.kind == Kind::kPush && slice_.key < options_.parameters.size();
  return options_.tracer == nullptr || !is_gradient ? nullptr : options_.tracer->of_step(header.rank, header.step);
}

// Updates the slice with the round's sum. In the trace, the arrows of the requests that this update answers pass
// through it.
SliceValues::Outcome ShardSlice::apply(const sync::Apply& apply) {
  const Waiters::InOrder& waiters = waiters_.all();
  const Header last = waiters.empty() ? Header() : waiters.rbegin()->second.request.header;
  telemetry::Span span(waiters.empty() ? nullptr : timeline_of(last), "apply", "server");
  if (span.is_recorded()) {
    span.with("key", slice_.key).with("slice", slice_.part).with("step", last.step);
    for (const auto& [arrival, waiter] : waiters) {
      const Header& header = waiter.request.header;
      if (header.kind != Kind::kPush || policy_.group_of[header.rank] != apply.group) continue;
      span.arrow(telemetry::ArrowPoint::kPass, telemetry::arrow_of_request(header.rank, header.request));
    }
  }
  return values_.update(apply.group, apply.staleness);
}

void ShardSlice::count_round(SliceValues::Outcome outcome) {
  using Outcome = SliceValues::Outcome;
  if (outcome == Outcome::kApplied) {
    counts_.updates++;
  } else if (outcome == Outcome::kLeftOut) {
    counts_.left_out++;
  } else {
    counts_.not_finite++;
    if (options_.on_not_finite) options_.on_not_finite(slice_, values_.culprit());
  }
}

void ShardSlice::report_update(sync::Group group, uint64_t staleness) {
  const std::optional<GroupReport> report = record_->on_apply(group, staleness, Waiters::Clock::now());
  if (report && options_.on_report) options_.on_report(*report);
  if (options_.on_update) options_.on_update(version());
}

void ShardSlice::answer_waiter(const sync::Answer& effect) {
  const std::optional<Waiters::Waiter> waiter = waiters_.take_due(effect.worker, effect.step);
  if (!waiter) return;  // worker 0 has set the slice's values again since, so nobody waits
  if (values_.is_refused(effect.group)) return refuse(waiter->request, Status::kNonFinite);
  Header header = answer_to(waiter->request, options_.server, waiter->status);
  const SliceValues::Snapshot& kept = values_.kept(effect.group);
  header.step = effect.step;
  header.samples_applied = kept.samples_applied;
  const Header& asked = waiter->request.header;
  if (asked.kind == Kind::kPush) header.samples = kept.samples_in_update;
  outbox_.add(waiter->request.peer, header, kept.values,
              {.timeline = timeline_of(asked),
               .worker = asked.rank,
               .request = asked.request,
               .version = kept.version,
               .since = waiter->since});
}

void ShardSlice::refuse_waiter(uint32_t rank, uint64_t step) {
  if (const std::optional<Waiters::Waiter> waiter = waiters_.take(rank, step)) {
    refuse(waiter->request, Status::kRejected);
  }
}

// The following functions handle control messages.

void ShardSlice::control(const ControlCall& call, Pieces payload) {
  const bool is_intact = payload_intact(call.request.payload_crc, payload);
  change([&]() DT_REQUIRES(mutex_) {
    const auto& what = call.request.what;
    const bool asks_only = std::holds_alternative<PullState>(what) || std::holds_alternative<PullCounters>(what);
    // The worker that changes the rate, hands the weights over to workers that join, sets them back, or has the servers
    // continue when one of them was replaced, is the leader, which may change.
    const bool hands_over = is_restored_ || (machine_ && !std::holds_alternative<Regroup>(what));
    const bool is_of_any_worker = asks_only || hands_over || std::holds_alternative<SetRate>(what);
    if (!is_of_any_worker && call.request.rank != 0) return refuse(call, Status::kRejected);
    if (machine_) carry_out_effects();
    if (!asks_only && applied_.contains(call.request.rank, id_of(call))) return answer_again(call);
    if (const auto* state = std::get_if<AssignState>(&what)) return assign_state(call, *state, payload, is_intact);
    if (!is_intact) return refuse(call, Status::kCorrupt);
    if (const auto* values = std::get_if<AssignValues>(&what)) return assign_values(call, *values, payload);
    if (!machine_) return refuse(call, Status::kUnknownKey);
    if (const auto* groups = std::get_if<Regroup>(&what)) return regroup(call, *groups);
    if (const auto* rate = std::get_if<SetRate>(&what)) return set_rate(call, *rate);
    if (const auto* pull = std::get_if<PullState>(&what)) return pull_state(call, *pull);
    acknowledge(call, Status::kOk);
  });
}

// Stores one array of the optimizer state. An AssignValues with the same request number follows, and its answer covers
// both messages.
void ShardSlice::assign_state(const ControlCall& call, const AssignState& assign, Pieces payload, bool is_intact) {
  if (assign.slot >= values_.slot_count() || !holds_slice(payload)) return refuse(call, Status::kBadSize);
  if (id_of(call) != states_.request) states_ = {.request = id_of(call)};
  (is_intact ? states_.damaged : states_.intact).erase(assign.slot);
  (is_intact ? states_.intact : states_.damaged).insert(assign.slot);
  if (is_intact) values_.set_state(assign.slot, payload);
}

void ShardSlice::assign_values(const ControlCall& call, const AssignValues& assign, Pieces payload) {
  if (assign.states > values_.slot_count() || !holds_slice(payload)) return refuse(call, Status::kBadSize);
  if (!is_rate_factor(assign.counters.rate_factor)) return refuse(call, Status::kRejected);
  if (id_of(call) != states_.request) states_ = {.request = id_of(call)};
  if (!states_.damaged.empty()) return refuse(call, Status::kCorrupt);
  // If arrays are missing, the connection broke between the messages of this assignment, and worker 0 is about to send
  // all of them again.
  if (states_.intact.size() < assign.states) return;
  if (states_.intact.empty()) values_.clear_state();
  values_.set_weights(payload, assign.counters);
  if (record_) record_->begin_groups(sync::group_count(policy_), Waiters::Clock::now());
  if (snapshots_ != nullptr) snapshots_->begin_at(assign.counters.updates);
  take_part();
  begin_rounds(assign.counters.updates);
  complete(call);
  for (const Waiters::Waiter& early : waiters_.take_all()) request_weights(early.request, early.wanted, early.status);
  carry_out_effects();
}

void ShardSlice::begin_rounds(uint64_t version, std::span<const uint64_t> leads) {
  const auto groups = static_cast<uint32_t>(sync::group_count(policy_));
  std::vector<sync::Step> rounds(leads.empty() ? 0 : groups, version);
  for (size_t rank = 0; rank < leads.size(); rank++) {
    sync::Step& round = rounds[policy_.group_of[rank]];
    round = std::max(round, version + leads[rank]);
  }
  machine_.emplace(policy_, version, rounds);
  if (options_.event_log != nullptr) options_.event_log->begin({slice_.key, slice_.part}, policy_, version, rounds);
  values_.begin_rounds(groups);
  for (uint32_t group = 0; group < groups && policy_.snapshots; group++) values_.keep(group);
  for (const uint32_t rank : absent_) feed(sync::Leave{rank});
  carry_out_effects();
}

void ShardSlice::take_part() {
  if (snapshots_ == nullptr || values_.version() % snapshots_->every() != 0) return;
  SnapshotPart part = values_.part();
  part.id = {slice_.key, slice_.part};
  part.group_of = policy_.group_of;
  snapshots_->take(std::move(part));
}

// A step must not become so large that it could wrap around.
bool ShardSlice::may_align(const Regroup::Alignment& alignment) const {
  constexpr uint64_t kMax = UINT64_MAX / 4;
  const bool has_leads = alignment.leads.size() == policy_.group_of.size() &&
                         std::ranges::all_of(alignment.leads, [](uint64_t lead) { return lead < kMax; });
  return is_restored_ && has_leads && alignment.counters.updates < kMax && alignment.counters.samples < kMax &&
         is_rate_factor(alignment.counters.rate_factor);
}

// Regrouping discards the sums of unfinished rounds, and the pulls that wait in them would never be answered. While all
// workers stand still, no round is unfinished.
void ShardSlice::regroup(const ControlCall& call, const Regroup& regroup) {
  if (values_.is_statistic()) return refuse(call, Status::kRejected);
  if (regroup.group_of.size() != policy_.group_of.size()) return refuse(call, Status::kBadSize);
  const auto is_known = [&](sync::Group group) { return group < regroup.group_of.size(); };
  if (!std::ranges::all_of(regroup.group_of, is_known) || !waiters_.empty()) return refuse(call, Status::kRejected);
  const auto& alignment = regroup.alignment;
  if (alignment && !may_align(*alignment)) return refuse(call, Status::kRejected);
  policy_.group_of = regroup.group_of;
  if (record_) record_->begin_groups(sync::group_count(policy_), Waiters::Clock::now());
  const uint64_t before = values_.version();
  if (alignment) values_.advance(alignment->counters);
  if (values_.version() > before) take_part();
  begin_rounds(values_.version(),
               alignment ? std::span<const uint64_t>(alignment->leads) : std::span<const uint64_t>());
  complete(call);
}

void ShardSlice::set_rate(const ControlCall& call, const SetRate& rate) {
  if (values_.is_statistic() || !is_rate_factor(rate.change.factor)) return refuse(call, Status::kRejected);
  values_.set_rate(rate.change);
  if (record_ && options_.on_rate) options_.on_rate(rate.change, version() + 1);
  complete(call);
}

// Sends a copy, because the next update changes the state in place. This happens once per checkpoint.
void ShardSlice::pull_state(const ControlCall& call, const PullState& pull) {
  if (pull.slot >= values_.slot_count()) return refuse(call, Status::kBadSize);
  const std::span<const float> values = values_.state(pull.slot);
  const auto copy = std::make_shared<const std::vector<float>>(values.begin(), values.end());
  ControlAnswer answer = answer_to(call, Status::kOk);
  answer.counters = counters();
  outbox_.add(call.peer, answer, {.values = *copy, .owner = copy});
}

// The following functions change the members of the job and list waits.

void ShardSlice::leave(uint32_t rank) {
  change([&]() DT_REQUIRES(mutex_) {
    waiters_.forget(rank);
    if (!absent_.insert(rank).second || !machine_) return;
    carry_out_effects();
    feed(sync::Leave{rank});
    carry_out_effects();
  });
}

void ShardSlice::join(uint32_t rank, uint64_t step) {
  change([&]() DT_REQUIRES(mutex_) {
    if (absent_.erase(rank) == 0 || !machine_) return;
    carry_out_effects();
    const sync::Step next = machine_->clock(rank);
    feed(sync::Join{rank, values_.is_statistic() ? next : std::max(step, next)});
    carry_out_effects();
  });
}

void ShardSlice::restore(const SnapshotPart* part) {
  change([&]() DT_REQUIRES(mutex_) {
    effects_.clear();
    outbox_.discard();
    (void)waiters_.take_all();
    applied_ = {};
    states_ = {};
    is_restored_ = true;
    if (part != nullptr) {
      values_.restore(*part);
      policy_.group_of = part->group_of;
    }
    if (part == nullptr && !machine_) return;
    if (record_) record_->begin_groups(sync::group_count(policy_), Waiters::Clock::now());
    begin_rounds(values_.version());
  });
}

void ShardSlice::overdue(Waiters::Clock::time_point since_max, OverdueWaits& out) const {
  const MutexLock lock(mutex_);
  for (const auto& [arrival, waiter] : waiters_.all()) {
    if (waiter.since > since_max) continue;
    const uint32_t rank = waiter.request.header.rank;
    OverdueWaits::Wait wait{.worker = rank,
                            .since = waiter.since,
                            .slice = {slice_.key, slice_.part},
                            .version = waiter.wanted,
                            .lacks_value = !machine_};
    if (machine_) wait.missing = machine_->missing({rank, waiter.wanted});
    out.add(wait);
  }
  add_held(since_max, out);
}

void ShardSlice::add_held(Waiters::Clock::time_point since_max, OverdueWaits& out) const {
  if (snapshots_ == nullptr) return;
  const uint64_t limit = snapshots_->limit();
  if (limit == SnapshotLedger::kNoLimit) return;
  for (const Outbox::Record& held : outbox_.waiting()) {
    if (held.since > since_max || absent_.contains(held.worker)) continue;
    out.add({.worker = held.worker,
             .since = held.since,
             .slice = {slice_.key, slice_.part},
             .version = held.version,
             .snapshot = snapshots_->awaited(limit)});
  }
}

ShardCounts ShardSlice::counts() const {
  const MutexLock lock(mutex_);
  ShardCounts counts = counts_;
  counts.parked = waiters_.all().size();
  if (record_) counts.staleness = record_->histogram();
  if (record_) counts.round_s = record_->round_times();
  if (record_) counts.lateness = record_->lateness();
  return counts;
}

}  // namespace dtrain::kvstore
