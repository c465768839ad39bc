#include "observe/stall_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dtrain::observe {

namespace {

constexpr size_t kQuotedWaitsMax = 4;

std::string name_of(const Activity& process) {
  return process.host.empty() ? process.who : fmt::format("{} ({})", process.who, process.host);
}

// What holds the process up, if that is itself; empty if it does not stand or waits for another process.
std::string own_cause(const Activity& process, double standing_s, double limit_s) {
  if (process.report_age_s >= limit_s) {
    return fmt::format(
        "{} lives, but for {:.0f} s has not been able to report what it does: something blocks it, such as "
        "a file or a file system that does not answer",
        name_of(process), process.report_age_s);
  }
  if (standing_s < limit_s || !process.wait.empty()) return "";
  return fmt::format("{} has made no step for {:.0f} s, and waits for no other process", name_of(process), standing_s);
}

std::string waits_text(const std::vector<Activity>& processes) {
  std::string text;
  size_t waiting = 0;
  for (const Activity& process : processes) {
    if (!process.steps || process.has_ended || ++waiting > kQuotedWaitsMax) continue;
    text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", name_of(process), process.wait);
  }
  if (waiting > kQuotedWaitsMax) text += fmt::format(", and {} more", waiting - kQuotedWaitsMax);
  return text;
}

}  // namespace

// How long the worker has made no step; 0 for other processes, and for a worker with own work.
double StallWatch::standing_s(const Activity& process, double now_s) {
  if (!process.steps) return 0;
  const Standing now{.steps = *process.steps, .since_s = now_s};
  Standing& known = standing_.try_emplace(process.who, now).first->second;
  if (known.steps != now.steps || process.is_own_work) known = now;
  return now_s - known.since_s;
}

std::vector<Stalled> StallWatch::update(const std::vector<Activity>& processes, double now_s) {
  std::vector<Stalled> stalled;
  const Activity* oldest = nullptr;
  double oldest_s = 0;
  bool is_explained = false;  // some worker moves, or some process soon counts as unable to report
  for (const Activity& process : processes) {
    if (process.has_ended) continue;
    const double standing = standing_s(process, now_s);
    is_explained |= (process.steps && standing < seconds_) || process.report_age_s >= seconds_ / 2;
    if (process.steps && standing > oldest_s) {
      oldest = &process;
      oldest_s = standing;
    }
    std::string cause = own_cause(process, standing, seconds_);
    if (!cause.empty()) stalled.push_back({process.who, std::max(standing, process.report_age_s), std::move(cause)});
  }
  if (stalled.empty() && !is_explained && oldest != nullptr) {
    stalled.push_back({oldest->who, oldest_s,
                       fmt::format("no worker has made a step for {:.0f} s, and each waits for another process: {}",
                                   oldest_s, waits_text(processes))});
  }
  mark_news(stalled);
  return stalled;
}

void StallWatch::mark_news(std::vector<Stalled>& stalled) {
  std::set<std::string> names;
  for (Stalled& one : stalled) {
    one.is_news = !reported_.contains(one.who);
    names.insert(one.who);
  }
  reported_ = std::move(names);
}

}  // namespace dtrain::observe
