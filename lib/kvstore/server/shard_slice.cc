#include "kvstore/server/shard_slice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/duration_text.h"
#include "kvstore/wire/chunks.h"

namespace dtrain::kvstore {
namespace {

optim::Multipliers multipliers_of_key(const ShardOptions& options, uint32_t key) {
  return key < options.parameters.size() ? options.parameters[key] : optim::Multipliers{};
}

sync::Policy policy_of_key(const ShardOptions& options, uint32_t key) {
  const auto workers = static_cast<uint32_t>(options.policy.group_of.size());
  return key < options.parameters.size() ? options.policy : sync::bsp(workers);
}

Header answer_header(const Request& to, uint32_t server, Status status, uint64_t version) {
  Header header;
  header.kind = Kind::kAnswer;
  header.status = status;
  header.rank = static_cast<uint16_t>(server);
  header.membership_epoch = to.header.membership_epoch;
  header.step = to.header.step;
  header.version = version;
  header.key = to.header.key;
  header.slice = to.header.slice;
  header.samples = to.header.samples;
  return header;
}

}  // namespace

void answer_without_values(const Request& to, uint32_t server, Status status, uint64_t version) {
  to.peer->send({answer_header(to, server, status, version), {}, nullptr});
}

ShardSlice::ShardSlice(const ShardOptions& options, const Slice& slice, size_t slot_count, bool reports)
    : options_(options),
      slice_(slice),
      multipliers_(multipliers_of_key(options, slice.key)),
      policy_(policy_of_key(options, slice.key)),
      weights_(slice.count),
      receipts_(options.policy.group_of.size()) {
  for (size_t i = 0; i < slot_count && !is_statistic(); i++) state_.emplace_back(slice.count);
  for (Buffer<float>& slot : state_) state_spans_.push_back(slot.span());
  make_groups();
  if (reports) record_.emplace(groups_.size(), Clock::now());
}

void ShardSlice::make_groups() {
  // Gradients are also kept apart where a round may end while only a part of one has arrived.
  const bool by_rank = options_.deterministic || is_statistic() || policy_.backup > 0;
  const auto order = by_rank ? Accumulator::Order::kRank : Accumulator::Order::kArrival;
  groups_.clear();
  for (size_t i = 0; i < sync::group_count(policy_); i++) groups_.push_back({Accumulator(slice_.count, order), {}});
}

bool ShardSlice::fits(const Header& header) const {
  return header.encoding == Encoding::kFloat32 && header.element_count > 0 &&
         uint64_t{header.first_element} + header.element_count <= slice_.count;
}

void ShardSlice::refuse(const Request& request, Status status) {
  counts_.refused++;
  answer_without_values(request, options_.server, status, version());
}

void ShardSlice::answer(const Request& request, Status status, const LentValues& values, uint64_t samples_applied) {
  Header header = answer_header(request, options_.server, status, version());
  header.samples_applied = samples_applied;
  if (options_.sums_only && request.header.kind == Kind::kPushPull) header.samples = samples_in_sum_;
  send_values(*request.peer, header, values.values, values.owner, options_.checksums);
}

// Push: chunks are added as they arrive; the machine gets the event when the gradient is complete.

bool ShardSlice::is_whole(const Header& header) const {
  const Receipt& receipt = receipts_[header.rank];
  return receipt.step == header.step && receipt.received == slice_.count;
}

bool ShardSlice::take_push(const Request& request, Pieces payload) {
  const Header& header = request.header;
  const bool is_intact = payload_intact(header, payload);
  const std::lock_guard lock(mutex_);
  if (!machine_) {
    refuse(request, Status::kUnknownKey);
    return false;
  }
  if (!fits(header)) {
    refuse(request, Status::kBadSize);
    return false;
  }
  const bool is_last = header.first_element + header.element_count == slice_.count;
  const sync::Effect verdict = machine_->verdict({header.rank, header.step});
  const auto* add = std::get_if<sync::Add>(&verdict);
  if (add == nullptr) return is_last;  // finish_push answers the sender
  Receipt& receipt = receipts_[header.rank];
  if (receipt.step != header.step) receipt = {.step = header.step, .received = 0};
  // A repeated chunk, sent again after a reconnect. If it is the last one, the push must be finished again, because the
  // answer has to go through the new pipe.
  if (header.first_element < receipt.received) return is_last && is_whole(header);
  // The chunks before it were lost when the connection broke while the worker was sending; the worker sends all of them
  // again.
  if (header.first_element > receipt.received) return false;
  if (!is_intact) {
    refuse(request, Status::kRejected);
    return false;
  }
  groups_[add->group].sum.take(header.rank, header.first_element, header.element_count, payload);
  receipt.received += header.element_count;
  return is_last;
}

void ShardSlice::finish_push(const Request& request) {
  const Header& header = request.header;
  const std::lock_guard lock(mutex_);
  const sync::Effect verdict = machine_->verdict({header.rank, header.step});
  const bool is_new = std::holds_alternative<sync::Add>(verdict);
  const bool is_late = std::holds_alternative<sync::Late>(verdict);  // not a repeat, but lost
  // The step may have been a future one when its chunks arrived, so none of them was added, and has become the current
  // one since.
  if (std::holds_alternative<sync::Reject>(verdict) || (is_new && !is_whole(header))) {
    return refuse(request, Status::kRejected);
  }
  feed(sync::Push{header.rank, header.step}, header.samples);
  const uint64_t step = header.kind == Kind::kPushPull ? header.version : header.step + 1;
  request_weights(request, step, is_new || is_late ? Status::kOk : Status::kDuplicate);
}

// Pull: the machine decides when to answer. The answer goes to the rank's latest request.

void ShardSlice::pull(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (machine_) return request_weights(request, request.header.version, Status::kOk);
  take_waiting([&](const Waiting& w) { return w.request.header.rank == request.header.rank; });
  waiting_.push_back({request, request.header.version, Status::kOk, Clock::now()});
}

// Replaces an earlier copy of the same request.
void ShardSlice::wait_for(const Request& request, uint64_t wanted, Status status) {
  const uint32_t rank = request.header.rank;
  take_waiting([&](const Waiting& w) { return w.request.header.rank == rank && w.wanted == wanted; });
  waiting_.push_back({request, wanted, status, Clock::now()});
}

void ShardSlice::request_weights(const Request& request, uint64_t step, Status status) {
  wait_for(request, step, status);
  feed(sync::Pull{request.header.rank, step});
}

void ShardSlice::refresh(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!machine_) return refuse(request, Status::kUnknownKey);
  wait_for(request, request.header.version, Status::kOk);
  feed(sync::Refresh{request.header.rank, request.header.version});
}

void ShardSlice::feed(const sync::Event& event, uint32_t samples) {
  std::vector<sync::Effect> effects = std::move(effects_);  // reuses its memory
  effects.clear();
  machine_->on(event, effects);
  if (options_.trace != nullptr) options_.trace->event({slice_.key, slice_.part}, event, effects);
  for (const sync::Effect& effect : effects) carry_out(event, effect, samples);
  effects_ = std::move(effects);
  if (policy_.snapshots) return;
  for (GroupState& group : groups_) group.kept = {};  // otherwise the next update would have to copy the weights
}

void ShardSlice::carry_out(const sync::Event& event, const sync::Effect& effect, uint32_t samples) {
  if (const auto* add = std::get_if<sync::Add>(&effect)) {
    groups_[add->group].sum.complete(add->worker, samples);
    receipts_[add->worker].received = 0;
    counts_.pushes++;
    if (record_) record_->on_add(add->group, Clock::now());
  } else if (std::holds_alternative<sync::Drop>(effect)) {
    counts_.duplicates++;
  } else if (std::holds_alternative<sync::Late>(effect)) {
    counts_.late++;
  } else if (const auto* apply = std::get_if<sync::Apply>(&effect)) {
    update(apply->group, apply->staleness);
    if (record_) report(apply->group, apply->staleness);
  } else if (const auto* keep = std::get_if<sync::Keep>(&effect)) {
    groups_[keep->group].kept = weights_.lend();
    groups_[keep->group].kept_samples = counters_.samples;
  } else if (const auto* answer = std::get_if<sync::Answer>(&effect)) {
    answer_waiting(*answer);
  } else if (const auto* reject = std::get_if<sync::Reject>(&effect)) {
    if (const auto* pull = std::get_if<sync::Pull>(&event)) refuse_waiting(reject->worker, pull->step);
    if (const auto* refresh = std::get_if<sync::Refresh>(&event)) refuse_waiting(reject->worker, refresh->step);
  }
}

void ShardSlice::report(sync::Group group, uint64_t staleness) {
  const std::optional<GroupReport> report = record_->on_apply(group, staleness, Clock::now());
  if (report && options_.on_report) options_.on_report(*report);
  if (options_.on_update) options_.on_update(version());
}

void ShardSlice::update(sync::Group group, uint64_t staleness) {
  Accumulator& sum = groups_[group].sum;
  const uint64_t samples = sum.samples();
  if (is_statistic()) {
    sum.mean(weights_.writable());
  } else if (options_.sums_only) {
    const std::span<const float> total = sum.total();
    std::copy(total.begin(), total.end(), weights_.writable().begin());
    samples_in_sum_ = static_cast<uint32_t>(samples);
  } else {
    apply_rule(sum, staleness);
  }
  counters_.samples += samples;
  sum.reset();
  counts_.updates++;
}

void ShardSlice::apply_rule(Accumulator& sum, uint64_t staleness) {
  const double weight = weight_of(options_.weight, staleness);
  const optim::UpdateStep step = update_step(options_.rule, multipliers_, counters_.samples, sum.samples(), weight);
  optim::update(options_.rule.optimizer, step, weights_.writable(), sum.total(), state_spans_);
}

template <class Matches>
std::optional<ShardSlice::Waiting> ShardSlice::take_waiting(Matches matches) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), matches);
  if (found == waiting_.end()) return std::nullopt;
  Waiting taken = std::move(*found);
  waiting_.erase(found);
  return taken;
}

// An Answer has the step of the pull, or a later step if rounds go on without the worker. A repeat of an older pull may
// wait beside the intended one, so the latest request that is due is answered.
void ShardSlice::answer_waiting(const sync::Answer& effect) {
  uint64_t wanted = 0;
  for (const Waiting& w : waiting_) {
    const bool is_due = w.request.header.rank == effect.worker && w.wanted <= effect.step;
    if (is_due) wanted = std::max(wanted, w.wanted);
  }
  const auto is_meant = [&](const Waiting& w) { return w.request.header.rank == effect.worker && w.wanted == wanted; };
  const std::optional<Waiting> waiting = take_waiting(is_meant);
  if (!waiting) return;  // the slice was assigned again after the request
  if (waiting->request.header.kind == Kind::kPush) {
    return answer_without_values(waiting->request, options_.server, waiting->status, version());
  }
  const GroupState& group = groups_[effect.group];
  answer(waiting->request, waiting->status, group.kept, group.kept_samples);
}

void ShardSlice::refuse_waiting(uint32_t rank, uint64_t step) {
  const auto is_meant = [&](const Waiting& w) { return w.request.header.rank == rank && w.wanted == step; };
  if (const std::optional<Waiting> waiting = take_waiting(is_meant)) refuse(waiting->request, Status::kRejected);
}

// Assign: state and counters come first; the values complete the assignment.

void ShardSlice::assign(const Request& request, Pieces payload) {
  const Header& header = request.header;
  const std::lock_guard lock(mutex_);
  if (header.rank != 0 || !payload_intact(header, payload)) return refuse(request, Status::kRejected);
  const bool is_duplicate = header.step <= assign_count_;
  if (header.samples == kCountersSlot) {
    std::array<std::byte, sizeof(Counters)> bytes{};
    if (header.encoding != Encoding::kFloat32 || header.payload_bytes != sizeof(Counters)) {
      return refuse(request, Status::kBadSize);
    }
    auto at = bytes.begin();
    for (const auto piece : payload) at = std::copy(piece.begin(), piece.end(), at);
    if (!is_duplicate) counters_ = std::bit_cast<Counters>(bytes);
    return;
  }
  if (!fits(header) || header.samples > state_.size()) return refuse(request, Status::kBadSize);
  if (is_duplicate) {
    const bool is_last = header.samples == 0 && header.first_element + header.element_count == slice_.count;
    if (is_last) answer_without_values(request, options_.server, Status::kDuplicate, version());
  } else if (header.samples > 0) {
    copy_floats(payload, state_[header.samples - 1].part(header.first_element, header.element_count));
  } else {
    assign_values(request, payload);
  }
}

void ShardSlice::assign_values(const Request& request, Pieces payload) {
  const Header& header = request.header;
  if (assigning_.step != header.step || assigning_by_ != header.incarnation) {
    assigning_ = {.step = header.step, .received = 0};
    assigning_by_ = header.incarnation;
  }
  if (header.first_element != assigning_.received) return;  // a repeat, or its beginning was lost; see take_push
  copy_floats(payload, weights_.writable().subspan(header.first_element, header.element_count));
  assigning_.received += header.element_count;
  if (assigning_.received == slice_.count) finish_assign(request);
}

void ShardSlice::finish_assign(const Request& request) {
  assign_count_ = request.header.step;
  assigning_ = {};
  begin_rounds(request.header.version);
  answer_without_values(request, options_.server, Status::kOk, version());
  const std::vector<Waiting> early = std::exchange(waiting_, {});
  for (const Waiting& waiting : early) request_weights(waiting.request, waiting.wanted, waiting.status);
}

void ShardSlice::begin_rounds(uint64_t version) {
  machine_.emplace(policy_, version);
  if (options_.trace != nullptr) options_.trace->begin({slice_.key, slice_.part}, policy_, version);
  for (GroupState& group : groups_) {
    group.sum.reset();
    if (!policy_.snapshots) continue;
    group.kept = weights_.lend();
    group.kept_samples = counters_.samples;
  }
  for (Receipt& receipt : receipts_) receipt = {};
  for (const uint32_t rank : absent_) feed(sync::Leave{rank});
}

namespace {

// By rank. Empty if a group's number is not below the number of workers.
std::vector<sync::Group> read_groups(const Header& header, Pieces payload) {
  std::vector<float> words(header.element_count);
  copy_floats(payload, words);
  std::vector<sync::Group> group_of(words.size());
  std::transform(words.begin(), words.end(), group_of.begin(),
                 [](float word) { return std::bit_cast<uint32_t>(word); });
  const bool fits = std::ranges::all_of(group_of, [&](sync::Group group) { return group < group_of.size(); });
  return fits ? group_of : std::vector<sync::Group>{};
}

}  // namespace

// Regrouping discards the sums of unfinished rounds, and pulls that wait in them would never be answered. There are
// none while all workers stand still.
void ShardSlice::regroup(const Request& request, Pieces payload) {
  const Header& header = request.header;
  const std::lock_guard lock(mutex_);
  if (!machine_) return refuse(request, Status::kUnknownKey);
  if (header.rank != 0 || is_statistic() || !payload_intact(header, payload)) return refuse(request, Status::kRejected);
  if (header.element_count != receipts_.size()) return refuse(request, Status::kBadSize);
  if (header.step > regroup_count_) {
    std::vector<sync::Group> group_of = read_groups(header, payload);
    if (group_of.empty() || !waiting_.empty()) return refuse(request, Status::kRejected);
    regroup_count_ = header.step;
    policy_.group_of = std::move(group_of);
    make_groups();
    if (record_) record_->begin_groups(groups_.size(), Clock::now());
    begin_rounds(version());
  }
  answer_without_values(request, options_.server, Status::kOk, version());
}

void ShardSlice::pull_state(const Request& request) {
  const uint32_t slot = request.header.samples;
  const std::lock_guard lock(mutex_);
  if (!machine_) return refuse(request, Status::kUnknownKey);
  if (request.header.version > version()) return refuse(request, Status::kRejected);
  // Sends a copy, because the next update changes the state in place. This happens once per checkpoint.
  if (slot == kCountersSlot) {
    const auto counters = std::make_shared<const Counters>(Counters{counters_.samples, version()});
    Header header = answer_header(request, options_.server, Status::kOk, version());
    header.element_count = sizeof(Counters) / sizeof(float);
    request.peer->send(make_message(header, std::as_bytes(std::span(counters.get(), 1)), counters, options_.checksums));
  } else if (slot >= 1 && slot <= state_.size()) {
    const std::span<const float> values = state_[slot - 1].span();
    const auto copy = std::make_shared<const std::vector<float>>(values.begin(), values.end());
    answer(request, Status::kOk, {*copy, copy}, counters_.samples);
  } else {
    refuse(request, Status::kBadSize);
  }
}

// Membership and waits.

Result<> ShardSlice::leave(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const Waiting& w) { return w.request.header.rank == rank; });
  if (!absent_.insert(rank).second || !machine_) return {};
  receipts_[rank] = {};
  const bool is_clean = groups_[policy_.group_of[rank]].sum.drop_partial(rank);
  feed(sync::Leave{rank});
  if (is_clean) return {};
  return fail(Code::kPeerLost, "worker {} was lost while its gradient of key {} slice {} was half received", rank,
              slice_.key, slice_.part);
}

void ShardSlice::join(uint32_t rank, uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (absent_.erase(rank) > 0 && machine_) feed(sync::Join{rank, step});
}

std::string ShardSlice::describe(const Waiting& waiting) const {
  const uint32_t rank = waiting.request.header.rank;
  std::vector<std::string> missing;
  if (!machine_) {
    missing.push_back("worker 0, which has not set the value");
  } else {
    for (const sync::Worker w : machine_->missing({rank, waiting.wanted}))
      missing.push_back(fmt::format("worker {}", w));
  }
  return fmt::format("key {} slice {} version {}: worker {} waits {}; missing: {}", slice_.key, slice_.part,
                     waiting.wanted, rank, duration_text(Clock::now() - waiting.since), fmt::join(missing, ", "));
}

void ShardSlice::overdue(double seconds, std::vector<std::string>& out) const {
  const std::lock_guard lock(mutex_);
  const auto limit = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (const Waiting& waiting : waiting_) {
    if (waiting.since <= limit) out.push_back(describe(waiting));
  }
}

ShardCounts ShardSlice::counts() const {
  const std::lock_guard lock(mutex_);
  ShardCounts counts = counts_;
  if (record_) counts.staleness = record_->histogram();
  return counts;
}

}  // namespace dtrain::kvstore
