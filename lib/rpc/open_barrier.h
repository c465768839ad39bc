// The calls of workers that wait in the scheduler's open barrier, what they have brought, and the answer of the last
// barrier. Who may enter and when the barrier is complete is decided by sync/membership.h. One thread uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "rpc/scheduler_service.h"

namespace dtrain::rpc {

class OpenBarrier {
 public:
  explicit OpenBarrier(uint32_t workers) : workers_(workers) {}

  // A call of the worker with this rank (nullopt: unknown); an earlier call of the same process is dead, and refused.
  void enter(BarrierCall* call, const proto::BarrierRequest& request, std::optional<uint32_t> rank);
  // Nothing happens if the process waits in no call.
  void refuse(Incarnation incarnation, const grpc::Status& status);
  void refuse_all(const grpc::Status& status);
  void cancel(Incarnation incarnation, uint64_t call);

  // All have entered: answers every call. The next barrier is number seq + 1.
  void release(uint64_t seq);
  // Answers a call for the last barrier.
  void repeat(Incarnation to);

 private:
  [[nodiscard]] proto::BarrierReply make_reply(std::map<uint32_t, proto::BarrierRequest>&& requests) const;

  const uint32_t workers_;
  std::map<Incarnation, BarrierCall*> calls_;
  std::map<uint32_t, proto::BarrierRequest> requests_;  // of the open barrier, by rank
  uint64_t seq_ = 0;                                    // of the open one
  proto::BarrierReply last_reply_;
};

}  // namespace dtrain::rpc
