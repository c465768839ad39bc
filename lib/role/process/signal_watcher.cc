#include "role/process/signal_watcher.h"

#include <chrono>
#include <utility>

#include "base/duration_text.h"
#include "base/thread.h"

namespace dtrain::role {

SignalWatcher::SignalWatcher(const Signals& signals, const Waits& waits, Log log, std::function<void()> on_stop,
                             std::function<void()> on_trace)
    : signals_(signals),
      waits_(waits),
      log_(std::move(log)),
      on_stop_(std::move(on_stop)),
      on_trace_(std::move(on_trace)),
      thread_([this] { watch(); }) {}

SignalWatcher::~SignalWatcher() {
  {
    const MutexLock lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void SignalWatcher::watch() {
  name_thread("signals");
  bool stopping = false;
  int dumps = signals_.dump_waits;
  const MutexLock lock(mutex_);
  while (!ended_.wait_for(mutex_, std::chrono::milliseconds(100), [this]() DT_REQUIRES(mutex_) { return end_; })) {
    const Result<> outcome = catching(
        [&]() -> Result<> {
          if (signals_.stop && !std::exchange(stopping, true)) on_stop_();
          if (const int asked = signals_.dump_waits; asked != std::exchange(dumps, asked)) {
            dump_waits();
            if (on_trace_) on_trace_();
          }
          return {};
        },
        "the answer to a signal");
    if (!outcome) log_.error("{}", outcome.error().line());
  }
}

void SignalWatcher::dump_waits() const {
  const std::vector<OpenWait> open = waits_.open();
  if (open.empty()) log_.info("open waits: none");
  for (const OpenWait& wait : open) {
    log_.info("open wait: {} for {}", wait.name, duration_text(std::chrono::duration<double>(wait.seconds)));
  }
}

}  // namespace dtrain::role
