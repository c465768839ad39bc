#include "base/waits.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {
double seconds_since(SteadyTime since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}
}  // namespace

Waits::Wait::Wait(Waits& waits, std::function<std::string()> name, WaitFor what)
    : waits_(waits), since_(std::chrono::steady_clock::now()) {
  const MutexLock lock(waits_.mutex_);
  id_ = waits_.next_++;
  waits_.entries_.emplace(id_, Entry{std::move(name), since_, what});
}

Waits::Wait::~Wait() {
  const MutexLock lock(waits_.mutex_);
  waits_.entries_.erase(id_);
}

double Waits::Wait::seconds() const {
  return seconds_since(since_);
}

std::vector<OpenWait> Waits::open() const {
  const MutexLock lock(mutex_);
  std::vector<OpenWait> open;
  open.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) open.push_back({entry.name(), seconds_since(entry.since), entry.what});
  return open;
}

std::optional<OpenWait> Waits::foremost() const {
  std::vector<OpenWait> all = open();
  const auto other = std::ranges::find(all, WaitFor::kOther, &OpenWait::what);
  if (other != all.end()) return std::move(*other);
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

}  // namespace dtrain
