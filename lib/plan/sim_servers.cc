#include "plan/sim_servers.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace dtrain::plan {

SimServers::SimServers(const Setting& setting, std::span<Observer* const> observers, Outcome& outcome, Send send)
    : observers_(observers),
      outcome_(outcome),
      send_(std::move(send)),
      parked_(setting.policy.group_of.size() * setting.servers) {
  const sync::Group groups = sync::group_count(setting.policy);
  servers_.assign(setting.servers, {sync::Machine(setting.policy), 0, std::vector<uint32_t>(groups, 0),
                                    std::vector<uint64_t>(groups, 0)});
}

void SimServers::feed_all(Time now, const sync::Event& event) {
  for (uint32_t s = 0; s < servers_.size(); s++) feed(now, s, event, 0);
}

void SimServers::feed(Time now, uint32_t server, const sync::Event& event, uint32_t exchange) {
  std::vector<sync::Effect> effects = std::move(effects_);  // reuses the memory of earlier effects
  effects.clear();
  servers_[server].machine.on(event, effects);
  outcome_.events++;
  for (Observer* observer : observers_)
    observer->on_event(static_cast<double>(now) / 1e6, server, servers_[server].machine, event, effects);
  std::optional<sync::Worker> asker;
  if (const auto* pull = std::get_if<sync::Pull>(&event)) asker = pull->worker;
  if (const auto* refresh = std::get_if<sync::Refresh>(&event)) asker = refresh->worker;
  for (const sync::Effect& effect : effects) {
    std::visit(
        Overloaded{
            [&](const sync::Add& add) { servers_[server].in_round[add.group]++; },
            [&](const sync::Late&) { outcome_.late += server == 0 ? 1 : 0; },
            [&](const sync::Apply& apply) { on_apply(server, apply); },
            [&](const sync::Keep& keep) { servers_[server].kept_applied[keep.group] = servers_[server].applied; },
            [&](const sync::Park& park) { on_park(now, server, park, exchange); },
            [&](const sync::Answer& answer) {
              on_answer(now, server, answer, asker == answer.worker ? std::optional(exchange) : std::nullopt);
            },
            [](const sync::Drop&) {}, [](const sync::Reject&) {}},
        effect);
  }
  effects_ = std::move(effects);
}

void SimServers::on_apply(uint32_t server, const sync::Apply& apply) {
  Server& state = servers_[server];
  state.applied += std::exchange(state.in_round[apply.group], 0);
  if (server != 0) return;
  outcome_.applied = state.applied;
  outcome_.updates++;
  outcome_.staleness[apply.staleness]++;
}

void SimServers::on_park(Time now, uint32_t server, const sync::Park& park, uint32_t exchange) {
  Parked& state = parked_at(server, park.worker);
  state.exchange = exchange;
  if (!std::exchange(state.is_parked, true)) state.since = now;
}

// `exchange`: the number of the exchange to which the request belongs, if the request is answered at once; nullopt if
// the request was parked, because parked_ then has the number.
void SimServers::on_answer(Time now, uint32_t server, const sync::Answer& answer, std::optional<uint32_t> exchange) {
  Parked& state = parked_at(server, answer.worker);
  const bool was_parked = !exchange && std::exchange(state.is_parked, false);
  const Reply reply = {.step = answer.step,
                       .applied = servers_[server].kept_applied[answer.group],
                       .exchange = exchange.value_or(state.exchange),
                       .number = answers_++};
  send_(server, answer.worker, reply, was_parked ? now - state.since : 0);
}

void SimServers::forget_parked(sync::Worker worker) {
  for (uint32_t s = 0; s < servers_.size(); s++) parked_at(s, worker).is_parked = false;
}

sync::Step SimServers::clock(sync::Worker worker) const {
  sync::Step step = 0;
  for (const Server& server : servers_) step = std::max(step, server.machine.clock(worker));
  return step;
}

}  // namespace dtrain::plan
