// The requests for one slice's weights that have no answer yet. This class only stores them; the slice's state machine
// decides when one is answered. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kvstore/server/request.h"

namespace dtrain::kvstore {

// The time that a call takes grows with the logarithm of the number of requests, and with the number of requests that
// the call returns or removes.
class Waiters {
 public:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    Request request;
    uint64_t wanted = 0;          // the step that begins with the wanted weights
    Status status = Status::kOk;  // status of the answer
    Clock::time_point since = {};
  };
  using InOrder = std::map<uint64_t, Waiter>;  // requests, indexed and sorted by arrival

  // Replaces an earlier copy of the same request (same rank and step).
  void add(const Request& request, uint64_t wanted, Status status);
  // Removes and returns the rank's request for this step; nullopt if there is none.
  std::optional<Waiter> take(uint32_t rank, uint64_t wanted);
  // Removes and returns the rank's latest request that the weights of `step` answer. A repeat of an older request may
  // be waiting too.
  std::optional<Waiter> take_due(uint32_t rank, uint64_t step);
  // Removes and returns all requests in order of arrival.
  std::vector<Waiter> take_all();
  void forget(uint32_t rank);

  [[nodiscard]] bool empty() const { return waiters_.empty(); }
  // The requests that wait, in order of arrival.
  [[nodiscard]] const InOrder& all() const { return waiters_; }

 private:
  using Places = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;
  Waiter take(Places::const_iterator place);

  uint64_t arrivals_ = 0;
  InOrder waiters_;
  Places places_;  // the arrival of each request, indexed by its rank and wanted step
};

}  // namespace dtrain::kvstore
