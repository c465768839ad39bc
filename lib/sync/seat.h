// What a server and a worker do when they get a view, as pure state machines. The processes (rpc, kvstore) and the
// tests carry out the effects. A view may arrive late, twice or in the wrong order; one that is older than the newest
// is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "sync/view.h"

namespace dtrain::sync::seat {

// Ends the streams of the process that had this rank, and refuses its incarnation from now on, so that nothing of it
// can arrive after the Leave that follows.
struct EndStreams {
  uint32_t rank = 0;
  bool returns = false;  // whether the same process is accepted again afterwards (Restore)
  bool operator==(const EndStreams&) const = default;
};
// No round of any slice waits for this rank anymore (sync::Leave).
struct LeaveRounds {
  uint32_t rank = 0;
  bool operator==(const LeaveRounds&) const = default;
};
// Accepts streams of the process that is about to have this rank.
struct AdmitStreams {
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  bool operator==(const AdmitStreams&) const = default;
};
// The rank takes part in the rounds of every slice, from `begin` on or from the slice's next round if that comes later
// (sync::Join).
struct JoinRounds {
  uint32_t rank = 0;
  uint64_t begin = 0;
  bool operator==(const JoinRounds&) const = default;
};
// Every slice of a parameter goes back to the snapshot of this version, with the ranks that take part. All streams have
// ended.
struct Restore {
  uint64_t version = 0;
  bool operator==(const Restore&) const = default;
};
using ServerEffect = std::variant<EndStreams, LeaveRounds, AdmitStreams, JoinRounds, Restore>;

class Server {
 public:
  // `start`: what the server has carried out already. One that takes the place of a lost server has carried out
  // nothing.
  explicit Server(View start) : view_(std::move(start)) {}
  // Appends the effects to `out`, in the order in which to carry them out. The server then acknowledges the view.
  void on(const View& view, std::vector<ServerEffect>& out);

 private:
  static void restore(const View& view, std::vector<ServerEffect>& out);

  View view_;  // the newest
};

// A worker's own place in the job. The process keeps this object for as long as it lives. If it loses its seat although
// it lives (it was suspended, or cut off), it first closes everything that it had because of the seat: connections to
// servers, its group, and a checkpoint that is not in place yet. Then it asks for a seat again, as another incarnation,
// and takes the same way as any worker that joins the running job. So nothing of an earlier incarnation can count, and
// no other number tells the two apart.
class Worker {
 public:
  enum class State {
    kOutside,    // it has not asked for a seat, or its request was refused
    kAsking,     // it waits for the answer to its request
    kPreparing,  // it has a seat, and does not take part yet
    kRunning,    // it takes part
    kLost,       // its seat belongs to nobody or to another process, or it has given it up
    kEnded,      // it has taken part, and ends by itself
  };
  struct Request {
    uint64_t incarnation = 0;
    uint64_t formerly = 0;              // the incarnation with which this process had its last seat; 0: it had none
    std::optional<uint32_t> rank = {};  // of that seat, which it would like to have again
    bool operator==(const Request&) const = default;
  };

  // Makes a request as `incarnation`, which must be a new one: at the start, or in kLost, when everything of the lost
  // seat is closed.
  Request ask(uint64_t incarnation);
  // The scheduler has answered the request.
  void admit(uint32_t rank, bool takes_part);
  void refuse();
  // The barrier has ended from which on this worker takes part.
  void enter();
  // The process could not prepare itself, for instance because it does not reach a server, and closes everything.
  void give_up();
  // The process ends by itself, well or with an error of its own. The loss of its seat is then no surprise.
  void end();
  // Returns whether this view, or an earlier one, takes the seat away.
  [[nodiscard]] bool loses_by(const View& view);

  [[nodiscard]] State state() const { return state_; }
  // Whether the process had a seat before the one that it has or asks for.
  [[nodiscard]] bool is_former() const { return formerly_ != 0; }

 private:
  State state_ = State::kOutside;
  uint64_t incarnation_ = 0, formerly_ = 0;
  std::optional<uint32_t> rank_;  // of its seat, or of the last one
  uint64_t number_ = 0;           // of the newest view
};

}  // namespace dtrain::sync::seat
