#include "train/server_return.h"

#include <algorithm>
#include <utility>

#include "train/other_workers.h"

namespace dtrain::train {

// A server keeps its newest three snapshots, and may have two more in progress.
constexpr size_t kPointsMax = 6;

ServerReturn::ServerReturn(ServerReturnParts parts)
    : parts_(std::move(parts)), links_(parts_.snapshot_every > 0 ? parts_.store.server_links() : nullptr) {}

void ServerReturn::keep(Start start, std::string job_text) {
  const uint64_t version = parts_.clock.updates();
  while (!points_.empty() && points_.back().version >= version) points_.pop_back();
  Point point;
  if (points_.size() == kPointsMax) {
    point = std::move(points_.front());  // for its memory
    points_.pop_front();
  }
  point.version = version;
  point.start = std::move(start);
  point.loss_scale = parts_.steps.loss_scale().kept();
  point.metric_sums = parts_.metrics.sums();
  parts_.steps.copy_statistics(point.statistics);
  point.job_text = std::move(job_text);
  points_.push_back(std::move(point));
}

const ServerReturn::Point* ServerReturn::at(uint64_t version) const {
  const auto found = std::ranges::find(points_, version, &Point::version);
  return found == points_.end() ? nullptr : &*found;
}

std::optional<uint64_t> ServerReturn::kept() const {
  if (!parts_.all_go_back) return std::nullopt;
  if (!points_.empty()) return points_.back().version;
  const auto first = newcomer_at_.find(parts_.coordinator.rank());
  return first == newcomer_at_.end() ? std::nullopt : std::optional(first->second);
}

void ServerReturn::join() {
  if (may_go_back()) links_->forget_requests();
}

void ServerReturn::note_newcomers(const std::set<uint32_t>& ranks) {
  for (const uint32_t rank : ranks) newcomer_at_[rank] = parts_.clock.updates();
}

std::set<uint32_t> ServerReturn::newcomers_since(uint64_t version) const {
  std::set<uint32_t> ranks;
  for (const auto& [rank, first] : newcomer_at_) {
    if (first >= version) ranks.insert(rank);
  }
  return ranks;
}

bool ServerReturn::may_continue_after(const Error& error) const {
  return may_go_back() && error.code == Code::kPeerLost && links_->is_broken();
}

// Before this worker meets the others, because the servers go back when all have met, and must not get a request from
// before that.
void ServerReturn::give_up_step() {
  parts_.steps.abandon();
  links_->forget_requests();
}

Result<> ServerReturn::meet(const Error& why) {
  parts_.log.warn("step {} cannot be completed: {}; the workers meet", parts_.clock.updates(), why.message);
  give_up_step();
  DT_TRY_VOID(parts_.clock.agree_on_end({.is_torn = true, .kept = kept()}));
  return {};
}

Result<bool> ServerReturn::agree_on_success(const Result<>& own) {
  if (!own && !may_continue_after(own.error())) return tl::unexpected(own.error());
  if (!own) give_up_step();
  DT_TRY(const AgreedEnd end, parts_.clock.agree_on_end({.is_torn = !own, .kept = kept()}));
  // A worker that could not succeed may have been lost since, with what it has said.
  return !end.is_torn && !parts_.coordinator.restored();
}

Result<AgreedStart> ServerReturn::agree_on_position(const std::string& job_text, const EpochRule& rule) {
  const std::optional<uint64_t> version = parts_.coordinator.restored();
  if (!version) return fail(Code::kInternal, "the workers have met because of a lost server, but none was replaced");
  version_ = *version;
  give_up_step();
  while (!points_.empty() && points_.back().version > version_) points_.pop_back();  // it will be there again
  const Point* own = at(version_);
  const std::set<uint32_t> newcomers = newcomers_since(version_);
  if (own == nullptr && !newcomers.contains(parts_.coordinator.rank())) {
    return fail(Code::kPeerLost, "the servers have gone back to step {}, of which this worker has kept nothing",
                version_);
  }
  Start start = own == nullptr ? Start() : own->start;
  if (own != nullptr) adapt_to_workers(start, own->job_text, job_text, rule, parts_.log);
  const auto hand_over = [&]() -> Result<std::optional<Start>> {
    parts_.steps.restore_statistics(own->statistics);
    const Result<> given = links_->give_statistics();
    // If another server was lost meanwhile, all notice it when they fetch the weights.
    if (!given && !may_continue_after(given.error())) return tl::unexpected(given.error());
    return std::optional<Start>();
  };
  DT_TRY(AgreedStart agreed,
         welcome_newcomers(parts_.coordinator, newcomers,
                           {.start = start, .continues_checkpoints = true, .metric_sums = parts_.metrics.sums().size()},
                           hand_over));
  if (own == nullptr) return agreed;
  agreed.position.own_steps = start.position.own_steps;
  agreed.loss_scale = own->loss_scale;
  agreed.metric_sums = own->metric_sums;
  return agreed;
}

// By seat: the largest number of steps that a worker of its group has made; 0 for a group without workers.
std::vector<uint64_t> ServerReturn::steps_of_groups(const sync::Policy& policy) const {
  const std::vector<uint32_t> live = parts_.coordinator.live();
  const std::vector<uint64_t>& made = parts_.clock.worker_steps();
  std::vector<uint64_t> of_group(sync::group_count(policy)), of_seat;
  for (size_t i = 0; i < std::min(live.size(), made.size()); i++) {
    uint64_t& steps = of_group[policy.group_of[live[i]]];
    steps = std::max(steps, made[i]);
  }
  for (const sync::Group group : policy.group_of) of_seat.push_back(of_group[group]);
  return of_seat;
}

Result<bool> ServerReturn::align(const sync::Policy& policy) {
  give_up_step();
  points_.resize(1);
  version_ = points_.front().version = 0;
  parts_.steps.copy_statistics(points_.front().statistics);  // which the weights of the servers bring along
  std::vector<uint64_t> steps = steps_of_groups(policy);
  const uint64_t own = steps[parts_.coordinator.rank()], at = parts_.clock.own_steps();
  if (own > at) parts_.clock.skip_to_update(parts_.clock.updates() + own - at);
  uint64_t least = own;
  for (const uint64_t made : steps) least = made > 0 ? std::min(least, made) : least;
  for (uint64_t& lead : steps) lead = policy.lead_max && lead > 0 ? lead - least : 0;
  Result<> aligned;
  if (parts_.coordinator.leads()) {
    const Result<uint64_t> lag = links_->align({.group_of = policy.group_of, .leads = std::move(steps)});
    if (!lag) aligned = tl::unexpected(lag.error());
    if (lag && *lag > 0) parts_.log.warn("some weights are those of {} updates ago, because a server was lost", *lag);
  }
  return agree_on_success(aligned);
}

void ServerReturn::settle(Start start, std::string job_text) {
  keep(std::move(start), std::move(job_text));
  if (version_ == 0) newcomer_at_.clear();
  for (auto& [rank, first] : newcomer_at_) first = std::min(first, version_ - 1);
}

void ServerReturn::restore_statistics() {
  if (const Point* own = at(version_)) parts_.steps.restore_statistics(own->statistics);
}

}  // namespace dtrain::train
