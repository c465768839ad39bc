#include "role/overdue_log.h"

#include <chrono>
#include <utility>

#include "base/thread.h"

namespace dtrain::role {
namespace {
constexpr std::chrono::seconds kFirst{30};
constexpr std::chrono::seconds kAgain{60};
}  // namespace

OverdueLog::OverdueLog(const kvstore::Shard& shard, Log log)
    : shard_(shard), log_(std::move(log)), thread_([this] { watch(); }) {}

OverdueLog::~OverdueLog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void OverdueLog::watch() {
  name_thread("overdue");
  std::unique_lock lock(mutex_);
  auto pause = kFirst;
  while (!ended_.wait_for(lock, pause, [this] { return end_; })) {
    const std::vector<std::string> lines = shard_.overdue(static_cast<double>(kFirst.count()));
    for (const std::string& line : lines) log_.warn("{}", line);
    pause = lines.empty() ? kFirst : kAgain;
  }
}

}  // namespace dtrain::role
