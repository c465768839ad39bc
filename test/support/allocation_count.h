// How often a thread asks for memory, where allocations.h looks.
#pragma once

namespace dtrain::test {

// Of this thread.
inline thread_local bool counts_allocations = false;
inline thread_local int allocations = 0;

// While it lives, nothing counts: for what stands in for somebody else's code.
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
