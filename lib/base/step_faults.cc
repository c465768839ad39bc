#include "base/step_faults.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace dtrain {

namespace {

// The line is written at once, because nothing is written after SIGKILL.
void announce_and_signal(const FailPoint& point, uint64_t number) {
  const std::string line = fmt::format("dtrain: --inject {} this process at {} {}\n",
                                       point.signal == SIGKILL ? "kills" : "stops", point.event, number);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  ::kill(::getpid(), point.signal);
}

void fire(const FailPoint& point, uint64_t number) {
  if (point.later_ms <= 0) return announce_and_signal(point, number);
  std::thread([point, number] {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(point.later_ms));
    announce_and_signal(point, number);
  }).detach();
}

// Takes the points that are due out of the list.
template <class IsDue>
std::vector<FailPoint> take_due(std::vector<FailPoint>& points, const IsDue& is_due) {
  const auto due = std::stable_partition(points.begin(), points.end(), [&](const FailPoint& p) { return !is_due(p); });
  std::vector<FailPoint> taken(due, points.end());
  points.erase(due, points.end());
  return taken;
}

}  // namespace

void FailPoints::arm(std::vector<FailPoint> points) {
  const MutexLock lock(mutex_);
  points_ = std::move(points);
}

void FailPoints::reach_step(uint64_t step) {
  std::vector<FailPoint> due;
  {
    const MutexLock lock(mutex_);
    due = take_due(points_, [step](const FailPoint& p) { return p.event == kStepEvent && p.number <= step; });
  }
  for (const FailPoint& point : due) fire(point, step);
}

void FailPoints::pass_message(std::string_view name) {
  std::vector<FailPoint> due;
  uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    const auto found = passed_.try_emplace(std::string(name)).first;
    number = ++found->second;
    due = take_due(points_, [&](const FailPoint& p) { return p.event == name && p.number == number; });
  }
  for (const FailPoint& point : due) fire(point, number);
}

Result<> Pacer::wait(SteadyTime begin) {
  const SteadyTime end = begin + std::chrono::duration_cast<SteadyTime::duration>(step_min_);
  std::optional<Waits::Wait> open;
  if (end > std::chrono::steady_clock::now()) open.emplace(waits_, [] { return "pacing by --inject"; });
  const MutexLock lock(mutex_);
  cancelled_.wait_until(mutex_, end, [this]() DT_REQUIRES(mutex_) { return error_.has_value(); });
  if (error_) return tl::unexpected(*error_);
  return {};
}

void Pacer::cancel(Error error) {
  const MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  cancelled_.notify_all();
}

}  // namespace dtrain
