// A job in virtual time: workers, a network with weather, and the driver of one slice's Machine, which decides as it
// does in a server. All is drawn from a seed: who is slow, who crashes and comes back, how long each message takes,
// which is lost or delivered twice. The bad weather ends half way; in the calm that follows everybody must finish.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sync/machine.h"

namespace dtrain::sync {

struct Setting {
  Policy policy = {};
  Step steps = 20;        // that each worker does
  int loss_percent = 10;  // of the messages, either way; a worker sends again what is not answered
  int duplicate_percent = 10;
  int slow_percent = 25;   // of the workers; they take 4 times as long for a step
  int leave_percent = 0;   // of the workers; they crash at a drawn moment, and the machine is told after a while
  int rejoin_percent = 0;  // of those that crashed; another process takes the rank over
};

struct Outcome {
  bool all_finished = false;  // whoever did not crash has done all its steps
  Step lead_max = 0;          // steps by which a worker that began one was ahead of the slowest live one
  uint64_t updates = 0;
  std::vector<std::string> broken;  // what should never have happened, with the virtual time; empty: all held
  // How often each path was taken, those never taken included: a path that no seed reaches was not tested.
  std::map<std::string_view, uint64_t> paths;
  std::string trace;  // a line an event: virtual time, event, effects
};

// Equal settings and seeds give equal outcomes.
Outcome simulate(const Setting& setting, uint64_t seed);

}  // namespace dtrain::sync
