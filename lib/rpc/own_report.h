// What the heartbeats of this process report about it.
//
// A thread of this object prepares the reports. That takes the locks of training and of the metrics, calls libraries,
// and may write a trace's file, and each of these may block for any time. The thread that sends heartbeats only copies
// the newest report, so a process never counts as lost because its own state or its disk keeps it waiting.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "telemetry/registry.h"
#include "telemetry/tracer.h"

namespace dtrain::proto {
class Heartbeat;
}

namespace dtrain::rpc {

// Any thread may call it.
class OwnReport {
 public:
  // What the arguments point to must outlive this object; registry and tracer may be null.
  OwnReport(telemetry::Registry* registry, telemetry::Tracer* tracer, Waits& waits);
  ~OwnReport();
  OwnReport(const OwnReport&) = delete;
  OwnReport& operator=(const OwnReport&) = delete;

  // Starts the thread. It calls `failed` if it ends because of an error.
  void start(std::function<void(Error)> failed);
  // Waits for the thread to end.
  void end() DT_EXCLUDES(mutex_);

  // Has a new report prepared, and waits at most `patience` for it. Returns the newest one with its age; empty if none
  // has been prepared yet.
  proto::Heartbeat renew(std::chrono::milliseconds patience) DT_EXCLUDES(mutex_);
  // Has the thread write, soon, this process's part of the trace with this number, which is over.
  void close_trace(uint64_t number) DT_EXCLUDES(mutex_);
  // Prepares a report on the calling thread.
  [[nodiscard]] proto::Heartbeat prepare() const;

 private:
  using Clock = std::chrono::steady_clock;
  Result<> prepare_until_end() DT_EXCLUDES(mutex_);

  telemetry::Registry* const registry_;
  telemetry::Tracer* const tracer_;
  Waits& waits_;
  std::thread thread_;

  Mutex mutex_;
  ConditionVariable wanted_changed_, prepared_changed_;
  uint64_t wanted_ DT_GUARDED_BY(mutex_) = 0;    // number of reports that renew() has asked for
  uint64_t prepared_ DT_GUARDED_BY(mutex_) = 0;  // the value of `wanted_` when the newest report was begun
  uint64_t over_ DT_GUARDED_BY(mutex_) = 0;      // number of the newest trace that is over
  bool ending_ DT_GUARDED_BY(mutex_) = false;
  std::unique_ptr<proto::Heartbeat> newest_ DT_GUARDED_BY(mutex_);  // never null
  Clock::time_point newest_at_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
