#include "base/step_faults.h"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace dtrain {

void KillSwitch::reached(uint64_t step) const {
  if (step_ && step >= *step_) ::kill(::getpid(), SIGKILL);
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
