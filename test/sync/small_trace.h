// A trace of a few lines, for tests of what reads traces.
#pragma once

#include <string>
#include <vector>

#include "sync/machine.h"
#include "sync/trace.h"

namespace dtrain::test {

// What a server of two workers under SSP writes when one pushes and pulls.
inline std::string small_trace() {
  std::string trace;
  const sync::Policy policy = sync::ssp(2, 1);
  sync::Machine machine(policy);
  sync::append_begin({7, 0}, policy, 0, trace);
  for (const sync::Event& event : {sync::Event(sync::Push{0, 0}), sync::Event(sync::Pull{0, 1})}) {
    std::vector<sync::Effect> effects;
    machine.on(event, effects);
    sync::append_event({7, 0}, event, effects, trace);
  }
  return trace;
}

}  // namespace dtrain::test
