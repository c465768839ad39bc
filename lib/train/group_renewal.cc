#include "train/group_renewal.h"

#include <fmt/ranges.h>

namespace dtrain::train {

// After so many failures with the same members, their connections are cut for good.
constexpr int kFailuresMax = 5;

void GroupRenewal::begin_step(int64_t samples) {
  samples_ = samples;
  if (group_ == nullptr || !parts_.clock.begins_update()) return;
  Mark& mark = marks_[parts_.clock.updates() % marks_.size()];
  mark.is_set = true;
  mark.step = parts_.clock.updates();
  mark.clock = parts_.clock.mark();
  mark.metric_sums = parts_.metrics.sums();
  parts_.steps.copy_statistics(mark.statistics);
}

bool GroupRenewal::may_continue_after(const Error& error) const {
  return group_ != nullptr && error.code == Code::kPeerLost && group_->is_broken();
}

void GroupRenewal::note_changes() {
  const std::vector<uint32_t> newcomers = parts_.coordinator.newcomers();
  newcomers_.insert(newcomers.begin(), newcomers.end());
  const std::vector<uint32_t> lost = parts_.coordinator.lost();
  lost_.insert(lost.begin(), lost.end());
}

Result<> GroupRenewal::meet(const Error& why) {
  parts_.log.warn("step {} cannot be completed: {}; the workers meet", parts_.clock.updates(), why.message);
  DT_TRY_VOID(parts_.clock.agree_on_end({.is_torn = true}));
  return at_border(true);
}

Result<> GroupRenewal::at_border(bool is_torn) {
  lost_.clear();
  is_mixed_ = false;
  note_changes();
  if (group_ == nullptr) return {};
  if (!is_torn && newcomers_.empty() && parts_.coordinator.live() == group_->members()) return {};
  return renew();
}

Result<> GroupRenewal::join() {
  lost_.clear();
  note_changes();
  return group_ == nullptr ? Result<>{} : make_group();
}

Result<> GroupRenewal::renew() {
  parts_.steps.abandon();
  DT_TRY_VOID(make_group());
  is_mixed_ = group_->has_part_of_step();
  DT_TRY(const uint64_t next, parts_.store.next_step());
  DT_TRY_VOID(go_to(next));
  parts_.log.info("workers {} continue with step {}", fmt::join(group_->members(), ", "), next);
  return {};
}

// Another worker may be lost while the group is made, so all confirm that they have it.
Result<> GroupRenewal::make_group() {
  parts_.steps.complete_statistics();
  std::vector<uint32_t> members;
  for (int failures = 0;; failures++) {
    const bool has_changed = members != parts_.coordinator.live() || !parts_.coordinator.newcomers().empty();
    if (has_changed) failures = 0;
    members = parts_.coordinator.live();
    Result<> made = group_->renew(members);
    if (!made && (!group_->is_broken() || failures == kFailuresMax)) return made;
    if (!made) parts_.log.warn("the group of workers is to be made again: {}", made.error().message);
    DT_TRY(const AgreedEnd end, parts_.clock.agree_on_end({.is_torn = !made}));
    note_changes();
    if (!end.is_torn) return {};
  }
}

// `step`: the first one that is not complete. If it is the one after this worker's step, others have completed that
// step with this worker's gradients, so it counts here too. It may also be the step before this worker's, whose weights
// were still on their way.
Result<> GroupRenewal::go_to(uint64_t step) {
  if (step == parts_.clock.updates() + 1) {
    parts_.clock.step_done(true, samples_);
    return {};
  }
  const Mark& mark = marks_[step % marks_.size()];
  if (!mark.is_set || mark.step != step) {
    if (step == parts_.clock.updates()) return {};  // which has not begun
    return fail(Code::kInternal, "the workers continue with step {}, but this worker is at step {}", step,
                parts_.clock.updates());
  }
  parts_.clock.go_back(mark.clock);
  parts_.steps.restore_statistics(mark.statistics);
  return parts_.metrics.set_sums(mark.metric_sums);
}

Result<bool> GroupRenewal::agree_on_success(const Result<>& own) {
  if (!own && !may_continue_after(own.error())) return tl::unexpected(own.error());
  DT_TRY(const AgreedEnd end, parts_.clock.agree_on_end({.is_torn = !own}));
  return !end.is_torn;
}

Result<bool> GroupRenewal::share_statistics(uint64_t samples) {
  if (group_ == nullptr) {
    parts_.steps.complete_statistics();
    DT_TRY_VOID(parts_.store.share_statistics(samples));
    return true;
  }
  std::vector<float> before;
  parts_.steps.copy_statistics(before);
  const Result<> shared = parts_.store.share_statistics(samples);
  DT_TRY(const bool have_all, agree_on_success(shared));
  if (have_all) return true;
  parts_.steps.restore_statistics(before);
  DT_TRY_VOID(at_border(true));
  return false;
}

}  // namespace dtrain::train
