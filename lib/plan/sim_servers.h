// The servers of a simulation (simulator.h). They behave like the shards in kvstore, but only count gradients instead
// of summing them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plan/agenda.h"
#include "plan/simulator.h"
#include "plan/virtual_network.h"
#include "sync/machine.h"

namespace dtrain::plan {

class SimServers {
 public:
  // Sends an answer to a worker. `parked`: how long the worker's request has been parked at this server.
  using Send = std::function<void(uint32_t server, sync::Worker worker, const Reply& reply, Time parked)>;

  // Counts events, gradients and updates in `outcome`. The arguments must outlive this object.
  SimServers(const Setting& setting, std::span<Observer* const> observers, Outcome& outcome, Send send);

  // Lets one server handle an event of a worker. `exchange`: the number of the worker's exchange to which the event
  // belongs.
  void feed(Time now, uint32_t server, const sync::Event& event, uint32_t exchange);
  // Lets all servers handle an event that does not belong to an exchange.
  void feed_all(Time now, const sync::Event& event);
  void forget_parked(sync::Worker worker);  // must be called when a worker crashes: its requests are no longer parked
  [[nodiscard]] sync::Step clock(sync::Worker worker) const;  // the worker's largest clock among all servers

 private:
  struct Server {
    sync::Machine machine;
    uint64_t applied = 0;                // number of gradients applied so far
    std::vector<uint32_t> in_round;      // number of gradients in the accumulator of each group
    std::vector<uint64_t> kept_applied;  // `applied` at the last Keep of each group
  };
  struct Parked {
    bool is_parked = false;
    Time since = 0;
    uint32_t exchange = 0;
  };

  Parked& parked_at(uint32_t server, sync::Worker worker) { return parked_[size_t{worker} * servers_.size() + server]; }
  void on_apply(uint32_t server, const sync::Apply& apply);
  void on_park(Time now, uint32_t server, const sync::Park& park, uint32_t exchange);
  void on_answer(Time now, uint32_t server, const sync::Answer& answer, std::optional<uint32_t> exchange);

  const std::span<Observer* const> observers_;
  Outcome& outcome_;
  const Send send_;
  std::vector<Server> servers_;
  std::vector<Parked> parked_;  // the parked requests, indexed by worker, then server
  std::vector<sync::Effect> effects_;
  uint64_t answers_ = 0;
};

}  // namespace dtrain::plan
