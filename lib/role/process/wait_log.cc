#include "role/process/wait_log.h"

#include <utility>

#include "base/thread.h"

namespace dtrain::role {
namespace {
constexpr std::chrono::milliseconds kAgain{60000};
}  // namespace

LongWaits own_waits(const Waits& waits) {
  return [&waits](double seconds) {
    std::vector<std::string> lines;
    for (const OpenWait& wait : waits.open()) {
      if (wait.seconds < seconds || wait.what == WaitFor::kOwnWork) continue;
      lines.push_back(fmt::format("waiting {:.0f} s for {}", wait.seconds, wait.name));
    }
    return lines;
  };
}

WaitLog::WaitLog(LongWaits long_waits, std::chrono::milliseconds first, Log log)
    : long_waits_(std::move(long_waits)), first_(first), log_(std::move(log)), thread_([this] { watch(); }) {}

WaitLog::~WaitLog() {
  {
    const MutexLock lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void WaitLog::watch() {
  name_thread("wait log");
  const MutexLock lock(mutex_);
  auto pause = first_;
  while (!ended_.wait_for(mutex_, pause, [this]() DT_REQUIRES(mutex_) { return end_; })) {
    const Result<> outcome = catching(
        [&]() -> Result<> {
          const std::vector<std::string> lines = long_waits_(std::chrono::duration<double>(first_).count());
          for (const std::string& line : lines) log_.warn("{}", line);
          pause = lines.empty() ? first_ : kAgain;
          return {};
        },
        "the list of long waits");
    if (!outcome) log_.error("{}", outcome.error().line());
  }
}

}  // namespace dtrain::role
