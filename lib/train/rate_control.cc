#include "train/rate_control.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dtrain::train {

void RateControl::begin(double factor) {
  factor_ = factor;
  if (!parts_.coordinator.leads()) return;
  leads_ = true;
  if (!parts_.spec.metrics_path.empty()) requests_ = RateRequests::open(parts_.spec.metrics_path);
  if (factor == 1) return;
  parts_.log.info("the learning rate is {:g} times that of the schedule, because it was changed earlier in this run",
                  factor);
}

void RateControl::go_back(double factor) {
  if (factor != factor_) {
    parts_.log.warn("the learning rate is {:g} times that of the schedule again, because the run goes back", factor);
  }
  factor_ = factor;
}

std::optional<RateControl::Change> RateControl::requested() {
  const std::optional<RateRequest> request = requests_.take(parts_.log);
  if (!request) return std::nullopt;
  const double scheduled = parts_.clock.scheduled_rate();
  const double factor = request->kind == RateRequest::Kind::kRate ? request->value / (scheduled * batch_factor_)
                                                                  : factor_ * request->value;
  const bool has_rate = parts_.spec.optimizer.name != "adadelta";
  if (has_rate && kvstore::is_rate_factor(factor)) return Change{factor, "requested: " + to_string(*request)};
  parts_.log.warn(
      "the learning rate is not changed to the requested {}: {}", to_string(*request),
      has_rate ? fmt::format("the schedule's rate is {:g}", scheduled) : "the optimizer has no learning rate");
  return std::nullopt;
}

// The leader before this worker may have told a change to some servers, and was lost before it told the workers.
Result<> RateControl::take_over() {
  if (std::exchange(leads_, true)) return {};
  requests_ = RateRequests::open(parts_.spec.metrics_path);
  return parts_.store.set_rate({factor_ * batch_factor_, parts_.clock.samples()}, true);
}

Result<> RateControl::meet() {
  if (parts_.spec.metrics_path.empty()) return {};
  const auto set = [&](double factor, bool for_servers) {
    return parts_.store.set_rate({factor * batch_factor_, parts_.clock.samples()}, for_servers);
  };
  std::optional<Change> change;
  if (parts_.coordinator.leads()) {
    DT_TRY_VOID(take_over(), "setting the rate on which the workers have agreed");
    change = requested();
    if (change) DT_TRY_VOID(set(change->factor, true), "changing the rate");
  }
  DT_TRY(const std::vector<job::RateChange> all,
         parts_.coordinator.all_gather("the learning rate", job::RateChange{.factor = change ? change->factor : 0}));
  if (all.front().factor == 0) return {};
  if (!change) {
    change = Change{all.front().factor, fmt::format("as decided by worker {}", parts_.coordinator.live().front())};
    DT_TRY_VOID(set(change->factor, false), "changing the rate");
  }
  apply(*change);
  return {};
}

void RateControl::apply(const Change& change) {
  const double of_schedule = change.factor * batch_factor_;
  parts_.log.info("learning rate x {:g} after {} samples; it is now {:g} times that of the schedule ({})",
                  change.factor / factor_, parts_.clock.samples(), of_schedule, change.reason);
  factor_ = change.factor;
  parts_.clock.set_rate_factor(of_schedule);
}

Result<> RateControl::follow_batch() {
  if (!parts_.spec.rate_follows_batch) return {};
  DT_TRY_VOID(parts_.clock.read_samples());
  const uint64_t now = parts_.clock.rule().samples_per_update, at_start = parts_.spec.epoch.samples_per_update;
  batch_factor_ = static_cast<double>(now) / static_cast<double>(at_start);
  DT_TRY_VOID(set_for_all(), "setting the rate for updates of {} samples", now);
  const double of_schedule = factor_ * batch_factor_;
  parts_.log.info(
      "an update has {} samples now, and had {} at the start: the learning rate is multiplied by {:g} "
      "(--elastic-batch scale), and is {:g} times that of the schedule after {} samples",
      now, at_start, batch_factor_, of_schedule, parts_.clock.samples());
  parts_.clock.set_rate_factor(of_schedule);
  return {};
}

// No update begins meanwhile, so the rate holds from the next one on. If the leader is lost before it has told all
// servers, the next leader tells them the same.
Result<> RateControl::set_for_all() {
  const kvstore::RateChange change{.factor = factor_ * batch_factor_};
  while (true) {
    const bool leads = parts_.coordinator.leads();
    DT_TRY_VOID(parts_.store.set_rate(change, leads));
    DT_TRY(const std::vector<job::RateChange> all,
           parts_.coordinator.all_gather("the learning rate of the workers that take part",
                                         job::RateChange{.factor = leads ? change.factor : 0}));
    if (std::ranges::any_of(all, [](const job::RateChange& told) { return told.factor != 0; })) return {};
  }
}

}  // namespace dtrain::train
