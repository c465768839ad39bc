#include "rpc/open_barrier.h"

#include <algorithm>
#include <utility>

namespace dtrain::rpc {

void OpenBarrier::enter(BarrierCall* call, const proto::BarrierRequest& request, std::optional<uint32_t> rank) {
  refuse(request.incarnation(), grpc::Status::CANCELLED);
  calls_[request.incarnation()] = {call, rank, request.joins()};
  // Requests are stored per rank, not per call, because a broken call may be repeated with the same content. A repeated
  // request for a barrier that was already answered must not contribute to the next one.
  if (rank && request.seq() == seq_ && !request.joins()) requests_[*rank] = request;
}

void OpenBarrier::refuse(Incarnation incarnation, const grpc::Status& status) {
  const auto it = calls_.find(incarnation);
  if (it == calls_.end()) return;
  it->second.call->refuse(status);
  calls_.erase(it);
}

void OpenBarrier::refuse_all(const grpc::Status& status) {
  for (const auto& [incarnation, waiting] : std::exchange(calls_, {})) waiting.call->refuse(status);
}

void OpenBarrier::cancel(Incarnation incarnation, uint64_t call) {
  const auto it = calls_.find(incarnation);
  if (it != calls_.end() && it->second.call->id() == call) refuse(incarnation, grpc::Status::CANCELLED);
}

void OpenBarrier::close(const sync::membership::ReleaseBarrier& release) {
  last_reply_ = make_reply(std::exchange(requests_, {}));
  last_reply_.mutable_gone()->Assign(release.gone.begin(), release.gone.end());
  last_reply_.mutable_joined()->Assign(release.joined.begin(), release.joined.end());
  last_reply_.mutable_lost()->Assign(release.lost.begin(), release.lost.end());
  last_reply_.set_seq(release.seq);
  last_reply_.set_term(term_);
  last_reply_.set_passed(release.passed);
  if (release.restored) last_reply_.set_restored(*release.restored);
  last_reply_.set_view(release.view);
  seq_ = release.seq + 1;
}

void OpenBarrier::restore(proto::BarrierReply last_reply) {
  seq_ = last_reply.seq() + 1;
  last_reply_ = std::move(last_reply);
  last_reply_.set_term(term_);
}

void OpenBarrier::answer(const sync::membership::ReleaseBarrier& release) {
  std::erase_if(calls_, [&](const auto& entry) {
    const Waiting& waiting = entry.second;
    if (waiting.joins && !std::ranges::binary_search(release.joined, waiting.rank.value_or(seats_))) return false;
    answer(waiting);
    return true;
  });
}

void OpenBarrier::repeat(Incarnation to) {
  const auto it = calls_.find(to);
  if (it == calls_.end()) return;
  answer(it->second);
  calls_.erase(it);
}

// A worker gets of the others' addresses only those for it. With all of them, the replies of one barrier would have as
// many addresses as the cube of the number of workers.
void OpenBarrier::answer(const Waiting& waiting) const {
  const auto is_for_pairs = [](const proto::Contribution& one) { return one.has_pair_addresses(); };
  if (std::ranges::none_of(last_reply_.contributions(), is_for_pairs)) return waiting.call->answer(last_reply_);
  proto::BarrierReply own;
  own.set_seq(last_reply_.seq());
  own.set_passed(last_reply_.passed());
  own.set_term(last_reply_.term());
  *own.mutable_gone() = last_reply_.gone();
  *own.mutable_joined() = last_reply_.joined();
  *own.mutable_lost() = last_reply_.lost();
  const auto rank = static_cast<int>(waiting.rank.value_or(0));
  for (const proto::Contribution& all : last_reply_.contributions()) {
    proto::Contribution& one = *own.add_contributions();
    if (!is_for_pairs(all)) continue;
    proto::PairAddresses& addresses = *one.mutable_pair_addresses();
    if (rank < all.pair_addresses().bytes_size()) addresses.add_bytes(all.pair_addresses().bytes(rank));
  }
  waiting.call->answer(own);
}

// Consumes `requests`. Sums are added in the order of ranks, so that they do not depend on the order of arrival.
proto::BarrierReply OpenBarrier::make_reply(std::map<uint32_t, proto::BarrierRequest>&& requests) const {
  proto::BarrierReply reply;
  for (auto& [rank, request] : requests) {
    if (request.has_contribution()) {
      while (reply.contributions_size() < static_cast<int>(seats_)) reply.add_contributions();
      reply.mutable_contributions(static_cast<int>(rank))->Swap(request.mutable_contribution());
    }
    while (reply.sums_size() < request.values_size()) reply.add_sums(0);
    for (int i = 0; i < request.values_size(); i++) reply.set_sums(i, reply.sums(i) + request.values(i));
  }
  return reply;
}

}  // namespace dtrain::rpc
