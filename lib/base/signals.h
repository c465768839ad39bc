// What the user asked for by a signal (distributed.md 6.2). cmd fills it in; loops look at it at each step.
#pragma once

#include <atomic>

namespace dtrain {

struct Signals {
  std::atomic<bool> stop{false};   // TERM, HUP, USR1, INT: at the next step checkpoint and end with 75
  std::atomic<int> interrupts{0};  // INT so far: at the second one a launcher kills its job at once
  std::atomic<int> dump_waits{0};  // USR2 so far: print the open waits once for each (R-F9)
};

}  // namespace dtrain
