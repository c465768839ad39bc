#include "rpc/open_barrier.h"

#include <utility>

namespace dtrain::rpc {

void OpenBarrier::enter(BarrierCall* call, const proto::BarrierRequest& request, std::optional<uint32_t> rank) {
  refuse(request.incarnation(), grpc::Status::CANCELLED);
  calls_[request.incarnation()] = call;
  // Requests are stored per rank, not per call, because a broken call may be repeated with the same content. A repeated
  // request for a barrier that was already answered must not contribute to the next one.
  if (rank && request.seq() == seq_) requests_[*rank] = request;
}

void OpenBarrier::refuse(Incarnation incarnation, const grpc::Status& status) {
  const auto it = calls_.find(incarnation);
  if (it == calls_.end()) return;
  it->second->refuse(status);
  calls_.erase(it);
}

void OpenBarrier::refuse_all(const grpc::Status& status) {
  for (const auto& [incarnation, call] : std::exchange(calls_, {})) call->refuse(status);
}

void OpenBarrier::cancel(Incarnation incarnation, uint64_t call) {
  const auto it = calls_.find(incarnation);
  if (it != calls_.end() && it->second->id() == call) refuse(incarnation, grpc::Status::CANCELLED);
}

void OpenBarrier::release(uint64_t seq) {
  last_reply_ = make_reply(std::exchange(requests_, {}));
  seq_ = seq + 1;
  for (const auto& [incarnation, call] : std::exchange(calls_, {})) call->answer(last_reply_);
}

void OpenBarrier::repeat(Incarnation to) {
  const auto it = calls_.find(to);
  if (it == calls_.end()) return;
  it->second->answer(last_reply_);
  calls_.erase(it);
}

// Consumes `requests`. Sums are added in the order of ranks, so that they do not depend on the order of arrival.
proto::BarrierReply OpenBarrier::make_reply(std::map<uint32_t, proto::BarrierRequest>&& requests) const {
  proto::BarrierReply reply;
  for (auto& [rank, request] : requests) {
    if (request.has_contribution()) {
      while (reply.contributions_size() < static_cast<int>(workers_)) reply.add_contributions();
      reply.mutable_contributions(static_cast<int>(rank))->Swap(request.mutable_contribution());
    }
    while (reply.sums_size() < request.values_size()) reply.add_sums(0);
    for (int i = 0; i < request.values_size(); i++) reply.set_sums(i, reply.sums(i) + request.values(i));
  }
  return reply;
}

}  // namespace dtrain::rpc
