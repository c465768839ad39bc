#include "train/rate_control.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::train {

bool RateControl::is_on() const {
  return parts_.spec.plateau.patience > 0 || !parts_.spec.metrics_path.empty();
}

void RateControl::begin(const RateState& start) {
  if (parts_.coordinator.rank() != 0) return;
  state_ = start;
  if (!parts_.spec.metrics_path.empty()) requests_ = RateRequests::open(parts_.spec.metrics_path);
  if (state_.factor == 1) return;
  parts_.log.info("the learning rate is {:g} times that of the schedule, because the run has changed it before",
                  state_.factor);
}

std::optional<RateControl::Change> RateControl::requested() {
  const std::optional<RateRequest> request = requests_.take(parts_.log);
  if (!request) return std::nullopt;
  const double scheduled = parts_.clock.scheduled_rate();
  const double factor =
      request->kind == RateRequest::Kind::kRate ? request->value / scheduled : state_.factor * request->value;
  const bool has_rate = parts_.spec.optimizer.name != "adadelta";
  if (has_rate && kvstore::is_rate_factor(factor)) return Change{factor, "by hand: " + to_string(*request)};
  parts_.log.warn("the learning rate stays, though {} was asked for: {}", to_string(*request),
                  has_rate ? fmt::format("the schedule's is {:g}", scheduled) : "the optimizer has none");
  return std::nullopt;
}

std::optional<RateControl::Change> RateControl::on_plateau(const BestAccuracy& best) const {
  const PlateauSpec& plateau = parts_.spec.plateau;
  const int64_t since = std::max(best.epoch, state_.changed_epoch.value_or(0));
  if (plateau.patience == 0 || parts_.clock.position().epoch - since < plateau.patience) return std::nullopt;
  const double scheduled = parts_.clock.scheduled_rate();
  double factor = state_.factor * plateau.factor;
  if (scheduled * factor < plateau.rate_min) factor = plateau.rate_min / scheduled;
  if (!(factor < state_.factor) || !kvstore::is_rate_factor(factor)) return std::nullopt;
  return Change{factor, fmt::format("no validation accuracy above {:.6f}, that of epoch {}, in {} epochs",
                                    best.accuracy, best.epoch + 1, parts_.clock.position().epoch - since)};
}

Result<> RateControl::meet(const std::optional<BestAccuracy>& best) {
  if (!is_on()) return {};
  std::optional<Change> change;
  if (parts_.coordinator.rank() == 0) {
    change = requested();
    if (!change && best) change = on_plateau(*best);
    if (change) DT_TRY_VOID(parts_.store.set_rate({change->factor, parts_.clock.samples()}), "changing the rate");
  }
  const double told = change ? change->factor : 0;  // the others add zeros
  DT_TRY(const std::vector<double> all, parts_.coordinator.sum("the learning rate", {&told, 1}));
  if (all.front() == 0) return {};
  if (!change) {
    change = Change{all.front(), "worker 0 says so"};
    DT_TRY_VOID(parts_.store.set_rate({change->factor, parts_.clock.samples()}), "changing the rate");
  }
  apply(*change);
  return {};
}

void RateControl::apply(const Change& change) {
  parts_.log.info("learning rate x {:g} after {} samples, {:g} times that of the schedule ({})",
                  change.factor / state_.factor, parts_.clock.samples(), change.factor, change.reason);
  state_ = {change.factor, parts_.clock.position().epoch};
  parts_.clock.set_rate_factor(change.factor);
}

}  // namespace dtrain::train
