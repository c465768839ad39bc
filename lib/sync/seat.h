// What a server and a worker do when they get a view, as pure state machines. The processes (rpc, kvstore) and the
// tests carry out the effects. A view may arrive late, twice or in the wrong order; one that is older than the newest
// is ignored.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "sync/view.h"

namespace dtrain::sync::seat {

// Ends the streams of the process that had this rank, and refuses its incarnation from now on, so that nothing of it
// can arrive after the Leave that follows.
struct EndStreams {
  uint32_t rank = 0;
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
using ServerEffect = std::variant<EndStreams, LeaveRounds, AdmitStreams, JoinRounds>;

class Server {
 public:
  explicit Server(View start) : view_(std::move(start)) {}
  // Appends the effects to `out`, in the order in which to carry them out. The server then acknowledges the view.
  void on(const View& view, std::vector<ServerEffect>& out);

 private:
  View view_;  // the newest
};

class Worker {
 public:
  Worker(uint32_t rank, uint64_t incarnation) : rank_(rank), incarnation_(incarnation) {}
  // Whether the worker still has its seat. Once it has lost it, it keeps nobody waiting and nobody waits for it, so it
  // must end.
  [[nodiscard]] bool on(const View& view);

 private:
  const uint32_t rank_;
  const uint64_t incarnation_;
  uint64_t number_ = 0;  // of the newest view
  bool is_seated_ = true;
};

}  // namespace dtrain::sync::seat
