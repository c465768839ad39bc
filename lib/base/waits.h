// Every blocking wait has a name, so that a user can see why a run hangs: SIGUSR2 prints the list of open waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace dtrain {

using SteadyTime = std::chrono::steady_clock::time_point;

struct OpenWait {
  std::string name;
  double seconds;
};

// The waits that are open in one process. Thread-safe.
class Waits {
 public:
  // A wait is open from its construction to its destruction. `name` returns, for example, "key 12 slice 0 version 418
  // on server 1"; it is called only when the open waits are listed, by the thread that lists them.
  class Wait {
   public:
    Wait(Waits& waits, std::function<std::string()> name);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    [[nodiscard]] double seconds() const;

   private:
    Waits& waits_;
    uint64_t id_;
    SteadyTime since_;
  };

  [[nodiscard]] std::vector<OpenWait> open() const;  // the waits that are open now, the oldest first

 private:
  struct Entry {
    std::function<std::string()> name;
    SteadyTime since;
  };
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> entries_ DT_GUARDED_BY(mutex_);
  uint64_t next_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain
