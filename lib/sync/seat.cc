#include "sync/seat.h"

#include <algorithm>

#include "base/error.h"

namespace dtrain::sync::seat {

// A process may have taken the seat of another one in views that this server has not seen.
void Server::on(const View& view, std::vector<ServerEffect>& out) {
  using State = Seat::State;
  if (view.number <= view_.number) return;
  const bool restores = view.restores > view_.restores;
  const size_t known = std::min(view.workers.size(), view_.workers.size());
  for (uint32_t rank = 0; rank < known; rank++) {
    const Seat &was = view_.workers[rank], &is = view.workers[rank];
    const bool is_same = was.state != State::kEmpty && is.state != State::kEmpty && was.incarnation == is.incarnation;
    if (was.state != State::kEmpty && (restores || !is_same)) out.emplace_back(EndStreams{rank, is_same});
    if (was.is_live() && !is_same) out.emplace_back(LeaveRounds{rank});
    if (is.state != State::kEmpty && !is_same && !restores) out.emplace_back(AdmitStreams{rank, is.incarnation});
    if (is.is_live() && !(is_same && was.is_live())) out.emplace_back(JoinRounds{rank, is.begin});
  }
  if (restores) restore(view, out);
  view_ = view;
}

// No message from before the restore can arrive after it, because every stream that may carry one has ended.
void Server::restore(const View& view, std::vector<ServerEffect>& out) {
  out.emplace_back(Restore{view.restored});
  for (uint32_t rank = 0; rank < view.workers.size(); rank++) {
    const Seat& seat = view.workers[rank];
    if (seat.state != Seat::State::kEmpty) out.emplace_back(AdmitStreams{rank, seat.incarnation});
  }
}

Worker::Request Worker::ask(uint64_t incarnation) {
  DT_CHECK(state_ == State::kOutside || state_ == State::kLost, "a worker that has a seat asked for one");
  DT_CHECK(incarnation != incarnation_, "a worker asked for a seat twice with the same incarnation");
  if (rank_) formerly_ = incarnation_;
  incarnation_ = incarnation;
  state_ = State::kAsking;
  return {.incarnation = incarnation_, .formerly = formerly_, .rank = rank_};
}

void Worker::admit(uint32_t rank, bool takes_part) {
  DT_CHECK(state_ == State::kAsking, "a worker was given a seat that it has not asked for");
  rank_ = rank;
  state_ = takes_part ? State::kRunning : State::kPreparing;
}

void Worker::refuse() {
  if (state_ == State::kAsking) state_ = State::kOutside;
}

void Worker::enter() {
  if (state_ == State::kPreparing) state_ = State::kRunning;
}

void Worker::give_up() {
  if (state_ == State::kPreparing) state_ = State::kLost;
}

void Worker::end() {
  if (state_ == State::kRunning) state_ = State::kEnded;
}

// A view that is older than the newest one may be of a time before this incarnation had the seat.
bool Worker::loses_by(const View& view) {
  const bool is_seated = state_ == State::kPreparing || state_ == State::kRunning;
  if (!is_seated || view.number < number_) return state_ == State::kLost;
  number_ = view.number;
  const Seat none{.incarnation = 0, .state = Seat::State::kEmpty};
  const Seat& seat = *rank_ < view.workers.size() ? view.workers[*rank_] : none;
  if (seat.state == Seat::State::kEmpty || seat.incarnation != incarnation_) state_ = State::kLost;
  return state_ == State::kLost;
}

}  // namespace dtrain::sync::seat
