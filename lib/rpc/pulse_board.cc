#include "rpc/pulse_board.h"

#include <utility>

namespace dtrain::rpc {

bool PulseBoard::hear(Incarnation incarnation, int64_t sent_us, MemberPulse heard) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[heard.member];
  if (entry.incarnation == incarnation && sent_us < entry.sent_us) return false;
  if (entry.incarnation == incarnation) {
    heard.is_lost = entry.pulse.is_lost;
    heard.has_left = entry.pulse.has_left;
    heard.has_ended = entry.pulse.has_ended;
  }
  entry = {incarnation, sent_us, std::move(heard)};
  return true;
}

void PulseBoard::mark(const Member& member, bool MemberPulse::*state) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(member);
  if (found != entries_.end()) found->second.pulse.*state = true;
}

std::vector<MemberPulse> PulseBoard::all() const {
  const MutexLock lock(mutex_);
  std::vector<MemberPulse> pulses;
  pulses.reserve(entries_.size());
  for (const auto& [member, entry] : entries_) pulses.push_back(entry.pulse);
  return pulses;
}

}  // namespace dtrain::rpc
