#include "kvstore/server/staleness_record.h"

#include <algorithm>

namespace dtrain::kvstore {
namespace {

double seconds(StalenessRecord::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void StalenessRecord::on_add(sync::Group group, sync::Worker worker, Clock::time_point now) {
  if (!groups_[group].first_add) groups_[group].first_add = now;
  if (lateness_.size() <= worker) lateness_.resize(worker + 1);
  lateness_[worker].gradients++;
  lateness_[worker].seconds += seconds(now - *groups_[group].first_add);
}

std::optional<GroupReport> StalenessRecord::on_apply(sync::Group group, uint64_t staleness, Clock::time_point now) {
  const size_t place = std::min<size_t>(staleness, kLargest) - 1;
  if (histogram_.size() <= place) histogram_.resize(place + 1);
  histogram_[place]++;
  Window& window = groups_[group];
  window.updates++;
  window.staleness_sum += staleness;
  window.staleness_max = std::max(window.staleness_max, staleness);
  const double round_s = seconds(now - window.first_add.value_or(now));
  window.wait_s += round_s;
  round_s_.observe(round_s);
  window.first_add.reset();
  if (window.updates % kReportUpdates != 0) return std::nullopt;
  const double updates = static_cast<double>(kReportUpdates);
  GroupReport report{.group = group,
                     .updates = window.updates,
                     .staleness_mean = static_cast<double>(window.staleness_sum) / updates,
                     .staleness_max = window.staleness_max,
                     .first_wait_s = window.wait_s / updates,
                     .updates_per_s = updates / std::max(seconds(now - window.window_begin), 1e-9)};
  window = {.window_begin = now, .updates = window.updates};
  return report;
}

}  // namespace dtrain::kvstore
