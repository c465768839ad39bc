// The requests that signals have made to this process. cmd sets the members; training and launching loops read them at
// each step.
#pragma once

#include <atomic>

namespace dtrain {

struct Signals {
  std::atomic<bool> stop{false};  // TERM, HUP, USR1 or INT: at the next step, write a checkpoint and exit with code 75
  std::atomic<bool> terminated{false};  // `stop` is set because of TERM; set before it
  std::atomic<int> interrupts{0};       // number of INTs: the second one ends the process immediately
  std::atomic<int> dump_waits{0};       // number of USR2s: for each, the open waits are printed once
};

}  // namespace dtrain
