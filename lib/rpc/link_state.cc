#include "rpc/link_state.h"

#include <algorithm>
#include <utility>

namespace dtrain::rpc {

bool LinkState::open(Time now) {
  if (phase_ != Phase::kIdle || now < retry_at_) return false;
  phase_ = Phase::kOpening;
  alive_ = limits_.streams;
  accepted_ = 0;
  return true;
}

LinkState::Accepted LinkState::accept() {
  accepted_++;
  if (phase_ != Phase::kOpening || accepted_ < limits_.streams) return Accepted::kNotAll;
  phase_ = Phase::kOpen;
  lost_at_.reset();
  return std::exchange(has_been_open_, true) ? Accepted::kReopened : Accepted::kOpened;
}

void LinkState::break_off() {
  if (phase_ == Phase::kOpening || phase_ == Phase::kOpen) phase_ = Phase::kBreaking;
}

std::optional<std::chrono::milliseconds> LinkState::end(Time now, bool has_answered) {
  break_off();
  if (has_been_open_ && !lost_at_) lost_at_ = now;
  if (--alive_ > 0) return std::nullopt;
  if (phase_ == Phase::kBreaking) phase_ = Phase::kIdle;
  if (std::exchange(is_trusted_, true) && has_answered) retry_ = limits_.retry_first;
  const std::chrono::milliseconds delay = retry_;
  retry_at_ = now + delay;
  retry_ = std::min(2 * retry_, limits_.retry_last);
  return delay;
}

}  // namespace dtrain::rpc
