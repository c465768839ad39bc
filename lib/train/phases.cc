#include "train/phases.h"

#include <algorithm>

namespace dtrain::train {
namespace {

constexpr std::array kNames = {"data_wait", "forward",    "backward",   "push", "pull_wait",
                               "update",    "validation", "checkpoint", "other"};
static_assert(kNames.size() == static_cast<size_t>(Phase::kCount_));

double since(SteadyTime begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Phases::Phases(telemetry::Registry& registry, const StepTimes& times)
    : times_(times), taken_(times), cells_(), step_s_(registry.histogram(telemetry::Metric::kStepSeconds)) {
  for (size_t i = 0; i < kNames.size(); i++) {
    cells_[i] = &registry.cell(telemetry::Metric::kPhaseSeconds, kNames[i]);
  }
}

// Adds the time that the step runner has spent since the last call, and returns the sum.
double Phases::take_step_times() {
  double sum = 0;
  const auto take = [&](Phase phase, double StepTimes::*part) {
    const double seconds = times_.*part - taken_.*part;
    cell(phase).add(seconds);
    sum += seconds;
  };
  take(Phase::kForward, &StepTimes::forward);
  take(Phase::kBackward, &StepTimes::backward);
  take(Phase::kPush, &StepTimes::push);
  take(Phase::kPullWait, &StepTimes::pull_wait);
  take(Phase::kUpdate, &StepTimes::update);
  taken_ = times_;
  return sum;
}

void Phases::step(SteadyTime begin, SteadyTime::duration data_wait) {
  const double seconds = since(begin);
  const double waited = std::chrono::duration<double>(data_wait).count();
  cell(Phase::kDataWait).add(waited);
  cell(Phase::kOther).add(std::max(0.0, seconds - waited - take_step_times()));
  step_s_.observe(seconds);
}

void Phases::spent(Phase phase, SteadyTime begin) {
  const double seconds = since(begin);
  cell(phase).add(std::max(0.0, seconds - take_step_times()));
}

std::vector<telemetry::Value> Phases::values() const {
  std::vector<telemetry::Value> all;
  for (size_t i = 0; i < kNames.size(); i++) {
    all.push_back({telemetry::Metric::kPhaseSeconds, cells_[i]->value(), kNames[i]});
  }
  return all;
}

}  // namespace dtrain::train
