// The requests for weights of one slice that have no answer yet. It only keeps them; the slice's state machine decides
// when one is answered. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvstore/server/request.h"

namespace dtrain::kvstore {

class Waiters {
 public:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    Request request;
    uint64_t wanted = 0;          // the step that the wanted weights begin
    Status status = Status::kOk;  // of the answer
    Clock::time_point since = {};
  };

  // Replaces an earlier copy of the same request: one of the same rank for the same step.
  void add(const Request& request, uint64_t wanted, Status status);
  // Removes and returns the rank's request for this step; nullopt if there is none.
  std::optional<Waiter> take(uint32_t rank, uint64_t wanted);
  // Removes and returns the rank's latest request that the weights of `step` answer. A repeat of an older one may wait
  // beside it.
  std::optional<Waiter> take_due(uint32_t rank, uint64_t step);
  // Removes and returns all, in order of arrival.
  std::vector<Waiter> take_all();
  void forget(uint32_t rank);

  [[nodiscard]] bool empty() const { return waiters_.empty(); }
  [[nodiscard]] const std::vector<Waiter>& all() const { return waiters_; }  // in order of arrival

 private:
  std::vector<Waiter> waiters_;
};

}  // namespace dtrain::kvstore
