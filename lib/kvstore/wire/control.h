// Control messages between a worker and a server: everything that is not a step's traffic. proto/data.proto is their
// form on the network; values that belong to one follow it as raw bytes, as in a data message.
//
// They travel on the same ordered streams as data messages, not as calls of their own. A slice is assigned before it is
// pulled and gets new groups between two steps, so these messages must not be overtaken by data messages of the slice;
// and after a broken connection they are sent again together with them, by the same rule.
//
// A request is about one slice, and its answer has the request's number. A repeat is recognized by that number.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kvstore/counters.h"
#include "kvstore/wire/header.h"

namespace dtrain::kvstore {

// Worker 0 sets the slice, at the start of a job or on a resume: one AssignState for each array of the optimizer state,
// if it has any (else they are zeros), then AssignValues, all with the same request number. AssignValues completes the
// assignment and alone is answered. Their payload is the values of the array, of the weights or of the statistic. If a
// connection breaks between them, the server takes nothing, and worker 0 sends all of them again.
struct AssignState {
  uint32_t slot = 0;  // index of the array
};
struct AssignValues {
  Counters counters;    // of the slice. Its rounds begin with the step `updates`
  uint32_t states = 0;  // how many AssignStates come before it
};
// Worker 0 sets the groups while all workers stand still. The new rounds begin with the step `updates` of the answer's
// counters.
struct Regroup {
  std::vector<uint32_t> group_of;  // by worker
};
// Worker 0 changes the learning rate. Every slice that belongs to a parameter gets the same change, so all change at
// the same number of samples.
struct SetRate {
  RateChange change;
};
// Asks for one array of the optimizer state: the payload of the answer.
struct PullState {
  uint32_t slot = 0;
};
// Asks for the counters, which every answer has.
struct PullCounters {};

struct ControlRequest {
  SliceId id = {};
  uint32_t rank = 0;         // of the sender
  uint64_t incarnation = 0;  // of the sender
  uint64_t request = 0;      // its number, from the same count as those of data messages
  std::variant<AssignState, AssignValues, Regroup, PullState, PullCounters, SetRate> what = {};
  uint32_t payload_crc = 0;  // as in Header
};

struct ControlAnswer {
  SliceId id = {};
  uint64_t request = 0;
  Status status = Status::kOk;
  Counters counters = {};  // of the slice
  uint32_t payload_crc = 0;
};

}  // namespace dtrain::kvstore
