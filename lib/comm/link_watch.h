// Detects immediately that the connection to a peer has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "comm/gloo_message.h"

namespace gloo::transport {
class Context;
}

namespace dtrain::comm {

// Watches the connections of `rank` in a separate thread. The context must outlive it.
//
// It posts receives, from every rank, for a message that is never sent. gloo notifies their buffers when the connection
// ends, whatever else is in flight. They are posted only once, because anything sent later could reach a peer that has
// finished and is closing. That would reset the connection instead of ending it, and data that others have yet to read
// from it would be lost.
class LinkWatch {
 public:
  // The watcher's thread calls both functions. `lost` may also be called by the constructor.
  struct Callbacks {
    std::function<void(uint32_t peer, const std::string& why)> lost;  // may be called repeatedly for a peer
    std::function<void(Error)> failed;                                // called if the watcher itself has failed
  };
  LinkWatch(gloo::transport::Context& context, uint32_t rank, uint32_t size, Callbacks callbacks);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

 private:
  void post(uint32_t peer);
  void watch() DT_EXCLUDES(mutex_);
  void report_ended();

  const Callbacks callbacks_;
  std::byte nothing_{};
  std::unique_ptr<GlooBuffer> any_;  // notified when any connection ends
  // A buffer for each rank that gloo notifies when that rank's connection ends; indexed by rank.
  std::vector<std::unique_ptr<GlooBuffer>> sentinels_;

  Mutex mutex_;
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  ConditionVariable stopped_;
  std::thread thread_;
};

}  // namespace dtrain::comm
