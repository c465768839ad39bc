#include "kvstore/server/overdue_waits.h"

#include <fmt/ranges.h>

#include "base/duration_text.h"

namespace dtrain::kvstore {

void OverdueWaits::add(const Wait& wait) {
  const auto [place, is_new] = workers_.try_emplace(wait.worker, WorkerWaits{wait, wait.slice, 0, false, {}, {}});
  WorkerWaits& all = place->second;
  if (is_new || all.last != wait.slice) all.slices++;
  if (wait.since < all.first.since) all.first = wait;
  all.last = wait.slice;
  all.lacks_value = all.lacks_value || wait.lacks_value;
  all.missing.insert(wait.missing.begin(), wait.missing.end());
  if (wait.snapshot) all.snapshot = wait.snapshot;
}

std::vector<std::string> OverdueWaits::lines(Clock::time_point now) const {
  std::vector<std::string> lines;
  for (const auto& [worker, all] : workers_) {
    std::vector<std::string> missing;
    if (all.lacks_value) missing.emplace_back("worker 0, which has not set the value");
    for (const uint32_t rank : all.missing) {
      if (rank != 0 || !all.lacks_value) missing.push_back(fmt::format("worker {}", rank));
    }
    const Wait& first = all.first;
    std::string line = fmt::format("worker {} waits {} for {} slice{} ({}key {} slice {} version {})", worker,
                                   duration_text(now - first.since), all.slices, all.slices == 1 ? "" : "s",
                                   all.slices == 1 ? "" : "first: ", first.slice.key, first.slice.slice, first.version);
    if (!missing.empty()) line += fmt::format("; missing: {}", fmt::join(missing, ", "));
    if (all.snapshot)
      line += fmt::format("{} until snapshot {} is written", missing.empty() ? "" : ", and", *all.snapshot);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace dtrain::kvstore
