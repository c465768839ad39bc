#include "sync/seat.h"

#include <algorithm>

namespace dtrain::sync::seat {

// A process may have taken the seat of another one in views that this server has not seen.
void Server::on(const View& view, std::vector<ServerEffect>& out) {
  using State = Seat::State;
  if (view.number <= view_.number) return;
  const size_t known = std::min(view.workers.size(), view_.workers.size());
  for (uint32_t rank = 0; rank < known; rank++) {
    const Seat &was = view_.workers[rank], &is = view.workers[rank];
    const bool is_same = was.state != State::kEmpty && is.state != State::kEmpty && was.incarnation == is.incarnation;
    if (was.state != State::kEmpty && !is_same) {
      out.emplace_back(EndStreams{rank});
      if (was.is_live()) out.emplace_back(LeaveRounds{rank});
    }
    if (is.state != State::kEmpty && !is_same) out.emplace_back(AdmitStreams{rank, is.incarnation});
    if (is.is_live() && !(is_same && was.is_live())) out.emplace_back(JoinRounds{rank, is.begin});
  }
  view_ = view;
}

bool Worker::on(const View& view) {
  if (view.number < number_) return is_seated_;
  number_ = view.number;
  const Seat none{.incarnation = 0, .state = Seat::State::kEmpty};
  const Seat& seat = rank_ < view.workers.size() ? view.workers[rank_] : none;
  is_seated_ = is_seated_ && seat.state != Seat::State::kEmpty && seat.incarnation == incarnation_;
  return is_seated_;
}

}  // namespace dtrain::sync::seat
