#include "comm/link_watch.h"

#include <gloo/transport/context.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/thread.h"

namespace dtrain::comm {
namespace {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
constexpr uint64_t kWatchSlot = 0;  // below Links::kFirstChannel, so no message is ever sent on it

// Why the connection of a sentinel buffer has ended; nullopt if it has not. This only polls, because a wait returns at
// once if an abort is pending.
std::optional<std::string> end_of(GlooBuffer& sentinel) {
  try {
    sentinel.abortWaitRecv();
    sentinel.waitRecv(kForever);
    return std::nullopt;
  } catch (const std::exception& e) {
    return reason(e);
  }
}

}  // namespace

LinkWatch::LinkWatch(gloo::transport::Context& context, uint32_t rank, uint32_t size, Callbacks callbacks)
    : callbacks_(std::move(callbacks)), any_(context.createUnboundBuffer(&nothing_, sizeof nothing_)) {
  for (uint32_t peer = 0; peer < size; peer++) {
    sentinels_.push_back(context.createUnboundBuffer(&nothing_, sizeof nothing_));
    if (peer != rank) post(peer);
  }
  thread_ = std::thread([this] {
    name_thread("gloo-watch");
    const Result<> watched = catching([this]() -> Result<> {
      watch();
      return {};
    });
    if (!watched) callbacks_.failed(watched.error());
  });
}

LinkWatch::~LinkWatch() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    any_->abortWaitRecv();
  }
  stopped_.notify_all();
  thread_.join();
}

void LinkWatch::post(uint32_t peer) {
  try {
    any_->recv(static_cast<int>(peer), kWatchSlot, 0, sizeof nothing_);
    sentinels_[peer]->recv(static_cast<int>(peer), kWatchSlot, 0, sizeof nothing_);
  } catch (const std::exception& e) {
    callbacks_.lost(peer, reason(e));
  }
}

// Sleeps until the first connection ends, then polls all connections, because other connections are ending too or soon
// will.
void LinkWatch::watch() {
  try {
    any_->waitRecv(kForever);
  } catch (const std::exception&) {  // gloo throws when a connection has ended; the sentinel buffers show which one
  }
  const MutexLock lock(mutex_);
  while (!stop_) {
    {
      const MutexUnlock unlocked(mutex_);
      report_ended();
    }
    stopped_.wait_for(mutex_, std::chrono::milliseconds(20), [this]() DT_REQUIRES(mutex_) { return stop_; });
  }
}

void LinkWatch::report_ended() {
  for (uint32_t peer = 0; peer < sentinels_.size(); peer++) {
    const std::optional<std::string> why = end_of(*sentinels_[peer]);
    if (why) callbacks_.lost(peer, *why);
  }
}

}  // namespace dtrain::comm
