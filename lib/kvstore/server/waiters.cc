#include "kvstore/server/waiters.h"

#include <iterator>
#include <utility>

namespace dtrain::kvstore {

void Waiters::add(const Request& request, uint64_t wanted, Status status) {
  const uint32_t rank = request.header.rank;
  (void)take(rank, wanted);
  waiters_.emplace_hint(waiters_.end(), arrivals_, Waiter{request, wanted, status, Clock::now()});
  places_.emplace(std::pair(rank, wanted), arrivals_);
  arrivals_++;
}

Waiters::Waiter Waiters::take(Places::const_iterator place) {
  const auto found = waiters_.find(place->second);
  Waiter taken = std::move(found->second);
  waiters_.erase(found);
  places_.erase(place);
  return taken;
}

std::optional<Waiters::Waiter> Waiters::take(uint32_t rank, uint64_t wanted) {
  const auto place = places_.find({rank, wanted});
  if (place == places_.end()) return std::nullopt;
  return take(place);
}

std::optional<Waiters::Waiter> Waiters::take_due(uint32_t rank, uint64_t step) {
  const auto after = places_.upper_bound({rank, step});
  if (after == places_.begin()) return std::nullopt;
  const auto latest = std::prev(after);
  if (latest->first.first != rank) return std::nullopt;
  return take(latest);
}

std::vector<Waiters::Waiter> Waiters::take_all() {
  std::vector<Waiter> taken;
  taken.reserve(waiters_.size());
  for (auto& [arrival, waiter] : waiters_) taken.push_back(std::move(waiter));
  waiters_.clear();
  places_.clear();
  return taken;
}

void Waiters::forget(uint32_t rank) {
  auto place = places_.lower_bound({rank, 0});
  while (place != places_.end() && place->first.first == rank) {
    waiters_.erase(place->second);
    place = places_.erase(place);
  }
}

}  // namespace dtrain::kvstore
