#include "train/epoch_clock.h"

#include <algorithm>

namespace dtrain::train {

EpochClock::EpochClock(EpochRule rule, optim::ScheduleSpec schedule, Losses losses, kvstore::Store& store,
                       job::Coordinator& coordinator)
    : rule_(rule),
      epoch_samples_(rule.samples),
      schedule_(std::move(schedule)),
      store_(store),
      coordinator_(coordinator),
      store_counts_samples_(!rule.ends_after_fixed_steps || (coordinator.workers() > 1 && losses.may_skip_alone)),
      may_skip_alone_(losses.may_skip_alone),
      may_lose_workers_(losses.may_lose_workers) {}

void EpochClock::seek(const AgreedStart& start) {
  position_ = start_ = start.position;
  rest_ = start.rest;
  rate_factor_ = start.rate_factor;
}

void EpochClock::skip_to_update(uint64_t update) {
  if (!rule_.ends_after_fixed_steps) return;
  const int64_t updates = static_cast<int64_t>(update) - static_cast<int64_t>(position_.updates);
  const int64_t left = rule_.steps_until(position_.epoch + 1) - static_cast<int64_t>(position_.own_steps);
  const int64_t to_come = std::max<int64_t>(left, 0);
  const int64_t steps = std::clamp(updates * static_cast<int64_t>(rule_.steps_per_update), -position_.step, to_come);
  position_.updates = update;
  position_.own_steps += static_cast<uint64_t>(steps);
  position_.step += steps;
}

void EpochClock::go_back(const AgreedStart& start, const EpochRule& rule) {
  const Position began = start_;
  seek(start, rule);
  if (began.samples < start_.samples) start_ = began;
  worker_steps_.clear();
  unshared_samples_ = 0;
}

double EpochClock::scheduled_rate() const {
  const auto samples = static_cast<double>(position_.samples + samples_of_next_update());
  return optim::learning_rate(schedule_, samples / static_cast<double>(epoch_samples_));
}

bool EpochClock::ends_update() const {
  return steps_in_update_ + 1 >= rule_.steps_per_update ||
         position_.own_steps + 1 >= static_cast<uint64_t>(rule_.steps_until(position_.epoch + 1));
}

uint64_t EpochClock::samples_of_next_update() const {
  if (rule_.steps_per_update == 1) return rule_.samples_per_update;
  const auto end = static_cast<uint64_t>(rule_.steps_until(position_.epoch + 1));
  const uint64_t begin = position_.own_steps - steps_in_update_;
  return begin < end ? std::min(rule_.steps_per_update, end - begin) * rule_.samples_per_step
                     : rule_.samples_per_update;
}

void EpochClock::change_rule_after_epoch(const EpochRule& rule) {
  Position at = slowest_position();
  at.own_steps = static_cast<uint64_t>(rule.steps_until(position_.epoch + 1));
  change_rule_within_epoch(rule, at, {});
}

void EpochClock::change_rule_within_epoch(const EpochRule& rule, const Position& at, data::EpochRest rest) {
  const uint64_t lead = this->lead();
  rule_ = rule;
  start_.own_steps += at.own_steps + lead - position_.own_steps;
  position_.step = at.step + static_cast<int64_t>(lead);
  position_.own_steps = at.own_steps + lead;
  rest_ = std::move(rest);
  worker_steps_.clear();
}

// The steps by which this worker is ahead of the slowest one.
uint64_t EpochClock::lead() const {
  if (!rule_.ends_after_fixed_steps || rule_.same_weights || worker_steps_.empty()) return 0;
  return position_.own_steps - std::min(position_.own_steps, std::ranges::min(worker_steps_));
}

Position EpochClock::slowest_position() const {
  Position at = position_;
  at.own_steps -= lead();
  at.step = std::max<int64_t>(at.step - static_cast<int64_t>(lead()), 0);
  return at;
}

Result<bool> EpochClock::epoch_is_over() {
  const int64_t next = position_.epoch + 1;
  DT_TRY(position_.updates, store_.next_step());
  if (store_counts_samples_) DT_TRY_VOID(read_samples());
  if (rule_.ends_after_fixed_steps) return is_whole();
  return position_.samples >= static_cast<uint64_t>(next) * epoch_samples_;
}

Result<> EpochClock::read_samples() {
  if (!store_counts_samples_ && !may_lose_workers_) return {};
  DT_TRY(position_.samples, store_.samples_applied());
  return {};
}

void EpochClock::step_done(bool applied, int64_t samples) {
  unshared_samples_ += static_cast<uint64_t>(samples);
  const bool is_update = ends_update();
  steps_in_update_++;
  if (is_update) {
    const uint64_t steps = std::exchange(steps_in_update_, 0);
    if (applied && !store_counts_samples_) position_.samples += steps * rule_.samples_per_step;
    // If only this worker left the step out, it is still an update.
    if (applied || (may_skip_alone_ && coordinator_.workers() > 1)) position_.updates++;
  }
  position_.step++;
  position_.own_steps++;
  worker_steps_.clear();
}

Result<AgreedEnd> EpochClock::agree_on_end(OwnEnd own) {
  own.steps = position_.own_steps;
  own.is_whole = is_whole();
  DT_TRY(AgreedEnd end, agree_on_epoch_end(coordinator_, own));
  worker_steps_ = end.worker_steps;
  return end;
}

Result<> EpochClock::wait_for_others() {
  if (rule_.same_weights) return {};
  DT_TRY_VOID(coordinator_.sum(fmt::format("the weights of epoch {}", position_.epoch + 1), {}));
  return {};
}

}  // namespace dtrain::train
