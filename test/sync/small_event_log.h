// An event log of a few lines, for tests of what reads event logs.
#pragma once

#include <string>
#include <vector>

#include "sync/event_log.h"
#include "sync/machine.h"

namespace dtrain::test {

// What a server of two workers under SSP writes when one pushes and pulls.
inline std::string small_event_log() {
  std::string event_log;
  const sync::Policy policy = sync::ssp(2, 1);
  sync::Machine machine(policy);
  sync::append_begin({7, 0}, policy, 0, {}, event_log);
  for (const sync::Event& event : {sync::Event(sync::Push{0, 0}), sync::Event(sync::Pull{0, 1})}) {
    std::vector<sync::Effect> effects;
    machine.on(event, effects);
    sync::append_event({7, 0}, event, effects, event_log);
  }
  return event_log;
}

}  // namespace dtrain::test
