// The pending actions of a simulation (simulator.h), ordered by virtual time.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "plan/virtual_network.h"
#include "sync/machine.h"

namespace dtrain::plan {

// What a worker sends to a server.
struct Request {
  enum class Kind : uint8_t { kPull, kPushPull, kRefresh } kind = Kind::kPull;
  sync::Step wanted = 0;  // the step that the worker wants to begin; a push carries the gradient of the step before it
  uint32_t exchange = 0;  // number of the exchange among those of this worker; the reply repeats it
};

// What a server sends to a worker.
struct Reply {
  sync::Step step = 0;   // the step that the worker may begin
  uint64_t applied = 0;  // number of gradients applied to the weights in this reply
  uint32_t exchange = 0;
  // Number of the sync::Answer that the reply carries; the Answers of all servers are numbered from 0.
  uint64_t number = 0;
};

// An action at a point in virtual time.
struct Action {
  enum class Kind : uint8_t {
    kRequestComes,  // the first byte of the request arrives
    kRequest,
    kReplyComes,
    kReply,
    kComputed,
    kResend,
    kCrash,
    kCrashKnown,
    kJoin,
  } kind = Kind::kComputed;
  sync::Worker worker = 0;
  uint32_t incarnation = 0;
  uint32_t server = 0;
  Request request = {};
  Reply reply = {};
  Time time = 0;
  uint64_t order = 0;
};

// Actions with the same time are taken in the order in which they were added, which makes a simulation deterministic.
class Agenda {
 public:
  void add(Time time, Action action) {
    action.time = time;
    action.order = order_++;
    actions_.push(action);
  }
  [[nodiscard]] bool empty() const { return actions_.empty(); }
  [[nodiscard]] Time next_time() const { return actions_.top().time; }
  Action take() {
    const Action next = actions_.top();
    actions_.pop();
    return next;
  }

 private:
  struct IsLater {
    bool operator()(const Action& a, const Action& b) const {
      return std::tie(a.time, a.order) > std::tie(b.time, b.order);
    }
  };

  std::priority_queue<Action, std::vector<Action>, IsLater> actions_;
  uint64_t order_ = 0;
};

}  // namespace dtrain::plan
