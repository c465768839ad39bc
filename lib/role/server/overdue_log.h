// Logs which workers a server keeps waiting.
#pragma once

#include <chrono>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "kvstore/server/shard.h"

namespace dtrain::role {

// A thread that logs each worker that has waited for a slice for `first`, and again every 60 s.
class OverdueLog {
 public:
  OverdueLog(const kvstore::Shard& shard, std::chrono::milliseconds first, Log log);  // `shard` must outlive it
  ~OverdueLog();
  OverdueLog(const OverdueLog&) = delete;
  OverdueLog& operator=(const OverdueLog&) = delete;

 private:
  void watch();

  const kvstore::Shard& shard_;
  const std::chrono::milliseconds first_;
  Log log_;
  Mutex mutex_;
  ConditionVariable ended_;
  bool end_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dtrain::role
