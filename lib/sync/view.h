// Who takes part in a job, as one numbered value. The scheduler publishes a view each time that a worker joins, is lost
// or has left, or that a server is lost or replaced (membership.h), and every process compares it with the one that it
// has (seat.h). See docs/protocol.md, "Views".
#pragma once

#include <cstdint>
#include <string>
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

// The place of the server with one rank.
struct ServerSeat {
  uint64_t incarnation = 0;  // of the process that has, or last had, this rank
  bool is_live = true;       // false: it was lost, and another process must take its place
  std::string address = {};  // where workers reach it, "host:port"
  bool operator==(const ServerSeat&) const = default;
};

struct View {
  uint64_t number = 0;                   // 0: the view with which the job starts
  std::vector<Seat> workers = {};        // indexed by rank
  std::vector<ServerSeat> servers = {};  // indexed by rank
  uint64_t restores = 0;                 // how often the servers had to go back to snapshots
  uint64_t restored = 0;                 // the version of the snapshots to which they went back last
  // Whether they must go back again, because one of them was lost. Until then workers can complete no request, also
  // when another server has taken the place.
  bool must_restore = false;
  bool operator==(const View&) const = default;
};

}  // namespace dtrain::sync
