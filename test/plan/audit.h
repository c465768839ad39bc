// Watches a simulation and reports whatever should never have happened. It keeps its own books about all workers, in
// plain loops, and compares the machine with them after each event. It is a second, slow and obvious implementation of
// the protocol.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/simulator.h"

namespace dtrain::plan {

class Audit final : public Observer {
 public:
  explicit Audit(const Setting& setting);

  void on_event(double /*ms*/, uint32_t server, const sync::Machine& machine, const sync::Event& event,
                std::span<const sync::Effect> effects) override;
  void on_take(uint32_t server, sync::Worker worker, uint64_t number) override;
  void on_begin(double ms, sync::Worker worker, sync::Step step) override;
  void on_incident(Incident incident, sync::Worker worker) override;
  // Checks what can only be checked at the end.
  void finish(const Outcome& outcome);

  std::vector<std::string> broken;  // with the number of the event; empty: nothing was broken
  // How often each path was taken, including paths that never were: a path that no seed reaches has not been tested.
  std::map<std::string_view, uint64_t> paths;
  std::string event_log;      // of all servers: slice 0.N is that of server N
  sync::Step lead_max = 0;    // the most rounds that a worker was ahead of the slowest live one when it began a step
  sync::Step spread_max = 0;  // the most rounds between the fastest and the slowest live worker

 private:
  enum class Gradient : uint8_t { kNone, kAdded, kLate, kApplied };
  struct Member {
    sync::Group group = 0;
    bool live = true;
    sync::Step next = 0;  // the next step that it will push
    std::optional<sync::Step> parked;
    std::vector<Gradient> gradients;  // by step
  };
  struct Round {
    sync::Step step = 0;
    sync::Step open = 0;
    std::vector<sync::Worker> added;
    uint64_t seen = 0;                 // version after the last update or Keep
    std::vector<sync::Step> kept;      // by worker: one past its last step that the weights of the last Keep contain
    std::vector<sync::Step> promised;  // like `kept`, for the weights when the round opened
    uint64_t kept_version = 0;
    uint64_t computed_with = 0;  // GSP: version of the weights that its first gradient was computed with
  };
  struct Sent {  // an answer
    sync::Worker worker = 0;
    uint64_t version = 0;
  };
  struct Books {  // of one server
    std::vector<Member> members;
    std::vector<Round> rounds;         // by group
    std::vector<sync::Step> contents;  // what the weights contain, as in Round::kept
    uint64_t version = 0;
    std::vector<uint64_t> taken;          // by worker: version of the weights that it received last
    std::vector<uint64_t> computes_with;  // by worker: version of the weights with which it began its last step
  };

  void require(bool holds, std::string_view what);
  void note(std::string_view path) { paths[path]++; }
  Gradient& gradient(Books& books, sync::Worker worker, sync::Step step);
  [[nodiscard]] bool is_missing(const Books& books, sync::Worker worker) const;
  [[nodiscard]] uint32_t missing(const Books& books, sync::Group group) const;
  [[nodiscard]] std::optional<sync::Step> slowest(const Books& books) const;

  void on_push(Books& books, const sync::Push& push, const sync::Effect& effect);
  void on_apply(Books& books, const sync::Apply& apply, const sync::Event& event);
  void on_keep(Books& books, const sync::Keep& keep, const sync::Event& event);
  void on_answer(Books& books, const sync::Answer& answer, const sync::Event& event);
  void on_park(Books& books, const sync::Park& park, const sync::Event& event);
  void on_reject(Books& books, const sync::Reject& reject, const sync::Event& event);
  void before(Books& books, const sync::Event& event);
  void go_on(Books& books, sync::Group group);
  void open_rounds(Books& books);
  void check(Books& books, const sync::Machine& machine);
  void check_contents(const Books& books, const sync::Answer& answer);

  const sync::Policy policy_;
  std::vector<Books> books_;                      // by server
  std::vector<Sent> sent_;                        // by number
  std::vector<std::optional<sync::Step>> begun_;  // by worker: the last step that its current process began
  uint64_t events_ = 0;
};

}  // namespace dtrain::plan
