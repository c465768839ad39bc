// Every blocking wait has a name, so that a user can see why a run hangs: SIGUSR2 prints the list of open waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace dtrain {

using SteadyTime = std::chrono::steady_clock::time_point;

// What a wait waits for: another process or device, or work of this process that may take long, such as validation. If
// a job stands still, a process that waits for another one is not the cause.
enum class WaitFor : uint8_t { kOther, kOwnWork };

struct OpenWait {
  std::string name;
  double seconds;
  WaitFor what = WaitFor::kOther;
};

// The waits that are open in one process. Thread-safe.
class Waits {
 public:
  // A wait is open from its construction to its destruction. `name` returns, for example, "key 12 slice 0 version 418
  // on server 1"; it is called only when the open waits are listed, by the thread that lists them.
  class Wait {
   public:
    Wait(Waits& waits, std::function<std::string()> name, WaitFor what = WaitFor::kOther);
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
  // The oldest one for something else than own work; if there is none, the oldest own work; nullopt if nothing is open.
  [[nodiscard]] std::optional<OpenWait> foremost() const;

 private:
  struct Entry {
    std::function<std::string()> name;
    SteadyTime since;
    WaitFor what;
  };
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> entries_ DT_GUARDED_BY(mutex_);
  uint64_t next_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain
