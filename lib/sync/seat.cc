#include "sync/seat.h"

#include <algorithm>

namespace dtrain::sync::seat {

void Server::on(const View& view, std::vector<ServerEffect>& out) {
  if (view.number <= view_.number) return;
  const size_t known = std::min(view.workers.size(), view_.workers.size());
  for (uint32_t rank = 0; rank < known; rank++) {
    if (!view_.workers[rank].is_live || view.workers[rank].is_live) continue;
    out.emplace_back(EndStreams{rank});
    out.emplace_back(LeaveRounds{rank});
  }
  view_ = view;
}

bool Worker::on(const View& view) {
  if (view.number < number_) return is_seated_;
  number_ = view.number;
  is_seated_ = is_seated_ && rank_ < view.workers.size() &&
               view.workers[rank_] == Seat{.incarnation = incarnation_, .is_live = true};
  return is_seated_;
}

}  // namespace dtrain::sync::seat
