#include "kvstore/server/waiters.h"

#include <algorithm>
#include <utility>

namespace dtrain::kvstore {

void Waiters::add(const Request& request, uint64_t wanted, Status status) {
  (void)take(request.header.rank, wanted);
  waiters_.push_back({request, wanted, status, Clock::now()});
}

std::optional<Waiters::Waiter> Waiters::take(uint32_t rank, uint64_t wanted) {
  const auto found = std::ranges::find_if(
      waiters_, [&](const Waiter& w) { return w.request.header.rank == rank && w.wanted == wanted; });
  if (found == waiters_.end()) return std::nullopt;
  Waiter taken = std::move(*found);
  waiters_.erase(found);
  return taken;
}

std::optional<Waiters::Waiter> Waiters::take_due(uint32_t rank, uint64_t step) {
  std::optional<uint64_t> latest;
  for (const Waiter& w : waiters_) {
    if (w.request.header.rank == rank && w.wanted <= step) latest = std::max(latest.value_or(0), w.wanted);
  }
  return latest ? take(rank, *latest) : std::nullopt;
}

std::vector<Waiters::Waiter> Waiters::take_all() {
  return std::exchange(waiters_, {});
}

void Waiters::forget(uint32_t rank) {
  std::erase_if(waiters_, [&](const Waiter& w) { return w.request.header.rank == rank; });
}

}  // namespace dtrain::kvstore
