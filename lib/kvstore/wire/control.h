// Control messages between a worker and a server: everything but the traffic of a step. proto/data.proto defines their
// form on the network. Values that belong to a message follow it as raw bytes, as in a data message.
//
// They travel on the same ordered streams as data messages, not as separate calls. Worker 0 sets a slice's values
// before anyone pulls them, and its groups between two steps, so data messages of the slice must not overtake these
// messages. After a broken connection, both kinds are sent again by the same rule.
//
// A request concerns one slice, and its answer has the request's number. A repeated request is recognized by that
// number and the sender's incarnation.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "kvstore/counters.h"
#include "kvstore/wire/header.h"

namespace dtrain::kvstore {

// Worker 0 sets the slice, at the start of a job or on a resume. It sends one AssignState for each array of the
// optimizer state (none if they are zeros), then AssignValues, all with the same request number. AssignValues completes
// the assignment, and only it is answered. The payload is the values of the array, of the weights or of the statistic.
// If a connection breaks in between, the server ignores what has arrived, and worker 0 sends all messages again.
struct AssignState {
  uint32_t slot = 0;  // index of the array in the optimizer state
};
struct AssignValues {
  Counters counters;    // counters of the slice, whose rounds begin with the step `updates`
  uint32_t states = 0;  // number of AssignStates that precede this message
};
// Worker 0 sets the groups while all workers stand still. The new rounds begin with the step `updates` in the answer's
// counters.
struct Regroup {
  // After a server was replaced, the leader makes all slices continue alike, although those of that server are older.
  struct Alignment {
    Counters counters = {};            // at least these, and this factor of the learning rate
    std::vector<uint64_t> leads = {};  // the first step of each worker, counted from the version; indexed by worker
  };
  std::vector<uint32_t> group_of = {};  // the new group of each worker, indexed by worker
  std::optional<Alignment> alignment = {};
};
// Worker 0 changes the learning rate. Every slice of a parameter gets the same change, so all change at the same number
// of samples.
struct SetRate {
  RateChange change;
};
// Asks for one array of the optimizer state, which is the payload of the answer.
struct PullState {
  uint32_t slot = 0;
};
// Asks for the counters, which are in every answer.
struct PullCounters {};

struct ControlRequest {
  SliceId id = {};
  uint32_t rank = 0;         // rank of the sender
  uint64_t incarnation = 0;  // incarnation of the sender
  uint64_t request = 0;      // request number, from the same sequence as those of data messages
  std::variant<AssignState, AssignValues, Regroup, PullState, PullCounters, SetRate> what = {};
  uint32_t payload_crc = 0;  // CRC-32C of the payload; 0 if the sender computed none
};

struct ControlAnswer {
  SliceId id = {};
  uint64_t request = 0;
  Status status = Status::kOk;
  Counters counters = {};  // counters of the slice
  uint32_t payload_crc = 0;
};

}  // namespace dtrain::kvstore
