// Counts the allocations of a thread, where allocations.h does the counting.
#pragma once

namespace dtrain::test {

// For the current thread.
inline thread_local bool counts_allocations = false;
inline thread_local int allocations = 0;

// Stops the counting during its lifetime, for code that stands in for somebody else's.
class PauseCounting {
 public:
  PauseCounting() { counts_allocations = false; }
  ~PauseCounting() { counts_allocations = before_; }
  PauseCounting(const PauseCounting&) = delete;
  PauseCounting& operator=(const PauseCounting&) = delete;

 private:
  bool before_ = counts_allocations;
};

}  // namespace dtrain::test
