#include "plan/own_speed.h"

#include <cmath>
#include <string_view>

namespace dtrain::plan {
namespace {

bool is_own_work(std::string_view phase) {
  return phase != "pull_wait" && phase != "validation" && phase != "checkpoint";
}

double own_seconds(const observe::Run& run, int64_t rank) {
  double seconds = 0;
  for (auto at = run.phase_seconds.lower_bound({rank, ""}); at != run.phase_seconds.end(); at++) {
    if (at->first.first != rank) break;
    if (is_own_work(at->first.second)) seconds += at->second;
  }
  return seconds;
}

// The number of steps that the worker had made at the end of its last epoch; its phases were written at that time.
double steps_of(const observe::Run& run, int64_t rank) {
  const observe::Curve* const curve =
      run.curve({.metric = "wait_data_share", .of_epochs = true, .role = "worker", .rank = rank});
  return curve == nullptr ? 0 : curve->last().at.step;
}

}  // namespace

std::optional<std::vector<double>> own_speeds(const observe::Run& run, int64_t workers) {
  if (run.setting_number("num-workers") != static_cast<double>(workers)) return std::nullopt;
  const double batch_size = run.setting_number("batch-size").value_or(0);
  std::vector<double> speeds;
  for (int64_t rank = 0; rank < workers; rank++) {
    const double speed = steps_of(run, rank) * batch_size / own_seconds(run, rank);
    if (!std::isfinite(speed) || speed <= 0) return std::nullopt;
    speeds.push_back(speed);
  }
  return speeds;
}

}  // namespace dtrain::plan
