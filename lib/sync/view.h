// Who takes part in a job, as one numbered value. The scheduler publishes a view each time that a worker joins, is lost
// or has left (membership.h), and every process compares it with the one that it has (seat.h). See docs/protocol.md,
// "Views".
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::sync {

// The place of the worker with one rank.
struct Seat {
  enum class State : uint8_t {
    kEmpty,    // nobody has this rank, and nobody waits for it
    kJoining,  // a process is about to take part: servers accept its connections, but no round waits for it
    kLive,     // a process takes part
  };
  uint64_t incarnation = 0;  // of the process that has, or last had, this rank; 0: there was none
  State state = State::kLive;
  uint64_t begin = 0;  // the first step of a process that has joined the running job
  [[nodiscard]] bool is_live() const { return state == State::kLive; }
  bool operator==(const Seat&) const = default;
};

struct View {
  uint64_t number = 0;             // 0: the view with which the job starts
  std::vector<Seat> workers = {};  // indexed by rank
  bool operator==(const View&) const = default;
};

}  // namespace dtrain::sync
