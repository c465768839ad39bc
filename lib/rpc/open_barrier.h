// The workers' calls that wait in the scheduler's open barrier, their contributions, and the answer to the last
// barrier. sync/membership.h decides who may enter and when the barrier is complete. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rpc/scheduler_service.h"

namespace dtrain::rpc {

class OpenBarrier {
 public:
  // `seats`: the number of seats of workers. `term`: the scheduler's, which all answers carry.
  OpenBarrier(uint32_t seats, uint64_t term) : seats_(seats), term_(term) {}

  // Adds a call of the worker with this rank (nullopt: the worker is unknown). If the same process has an earlier call
  // in the barrier, that call is refused, because its caller no longer waits for it.
  void enter(BarrierCall* call, const proto::BarrierRequest& request, std::optional<uint32_t> rank);
  // Refuses the waiting call of this process, if there is one.
  void refuse(Incarnation incarnation, const grpc::Status& status);
  void refuse_all(const grpc::Status& status);
  void cancel(Incarnation incarnation, uint64_t call);

  // Makes the answer to the open barrier, which all live workers have entered. The next barrier has the number
  // release.seq + 1.
  void close(const sync::membership::ReleaseBarrier& release);
  // Gives it to all calls, except those of workers that join the running job but not with this barrier.
  void answer(const sync::membership::ReleaseBarrier& release);
  // Answers a repeated call for the last barrier.
  void repeat(Incarnation to);

  // The answer to the last barrier, which a scheduler that comes back gives to workers that have not got it.
  [[nodiscard]] const proto::BarrierReply& last_reply() const { return last_reply_; }
  void restore(proto::BarrierReply last_reply);

 private:
  struct Waiting {
    BarrierCall* call = nullptr;
    std::optional<uint32_t> rank;
    bool joins = false;  // whether it waits for the barrier with which it begins to take part
  };
  [[nodiscard]] proto::BarrierReply make_reply(std::map<uint32_t, proto::BarrierRequest>&& requests) const;
  void answer(const Waiting& waiting) const;

  const uint32_t seats_;
  const uint64_t term_;
  std::map<Incarnation, Waiting> calls_;
  std::map<uint32_t, proto::BarrierRequest> requests_;  // requests in the open barrier, indexed by rank
  uint64_t seq_ = 0;                                    // number of the open barrier
  proto::BarrierReply last_reply_;                      // with the addresses for all workers, if there are any
};

}  // namespace dtrain::rpc
