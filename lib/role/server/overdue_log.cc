#include "role/server/overdue_log.h"

#include <utility>

#include "base/thread.h"

namespace dtrain::role {
namespace {
constexpr std::chrono::milliseconds kAgain{60000};
}  // namespace

OverdueLog::OverdueLog(const kvstore::Shard& shard, std::chrono::milliseconds first, Log log)
    : shard_(shard), first_(first), log_(std::move(log)), thread_([this] { watch(); }) {}

OverdueLog::~OverdueLog() {
  {
    const MutexLock lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void OverdueLog::watch() {
  name_thread("overdue");
  const MutexLock lock(mutex_);
  auto pause = first_;
  while (!ended_.wait_for(mutex_, pause, [this]() DT_REQUIRES(mutex_) { return end_; })) {
    const Result<> outcome = catching(
        [&]() -> Result<> {
          const std::vector<std::string> lines = shard_.overdue(std::chrono::duration<double>(first_).count());
          for (const std::string& line : lines) log_.warn("{}", line);
          pause = lines.empty() ? first_ : kAgain;
          return {};
        },
        "the list of waiting workers");
    if (!outcome) log_.error("{}", outcome.error().line());
  }
}

}  // namespace dtrain::role
