// Who takes part in a job, as one numbered value. The scheduler publishes a view each time that a worker is lost or has
// left (membership.h), and every process compares it with the one that it has (seat.h). See docs/protocol.md, "Views".
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::sync {

// The place of the worker with one rank.
struct Seat {
  uint64_t incarnation = 0;  // of the process that has, or last had, this rank
  bool is_live = true;       // false: the process was lost or has left, and nobody waits for it
  bool operator==(const Seat&) const = default;
};

struct View {
  uint64_t number = 0;             // 0: the view with which the job starts, in which all seats are live
  std::vector<Seat> workers = {};  // indexed by rank
  bool operator==(const View&) const = default;
};

}  // namespace dtrain::sync
