// Watches a simulation and reports whatever should never have happened. It keeps its own books about all workers, in
// plain loops, and compares the machine with them after each event. It is a second, slow and obvious implementation of
// the protocol.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sync/simulator.h"

namespace dtrain::sync {

class Audit final : public Observer {
 public:
  explicit Audit(const Setting& setting);

  void on_event(double /*ms*/, uint32_t server, const Machine& machine, const Event& event,
                std::span<const Effect> effects) override;
  void on_take(uint32_t server, Worker worker, uint64_t number) override;
  void on_begin(double ms, Worker worker, Step step) override;
  void on_incident(Incident incident, Worker worker) override;
  // Checks what can only be checked at the end.
  void finish(const Outcome& outcome);

  std::vector<std::string> broken;  // with the number of the event; empty: nothing was broken
  // How often each path was taken, including paths that never were: a path that no seed reaches has not been tested.
  std::map<std::string_view, uint64_t> paths;
  std::string trace;    // of all servers: slice 0.N is that of server N
  Step lead_max = 0;    // the most rounds that a worker was ahead of the slowest live one when it began a step
  Step spread_max = 0;  // the most rounds between the fastest and the slowest live worker

 private:
  enum class Gradient : uint8_t { kNone, kAdded, kLate, kApplied };
  struct Member {
    Group group = 0;
    bool live = true;
    Step next = 0;  // the next step that it will push
    std::optional<Step> parked;
    std::vector<Gradient> gradients;  // by step
  };
  struct Round {
    Step step = 0;
    Step open = 0;
    std::vector<Worker> added;
    uint64_t seen = 0;           // version after the last update or Keep
    std::vector<Step> kept;      // by worker: one past its last step that the weights of the last Keep contain
    std::vector<Step> promised;  // like `kept`, for the weights when the round opened
    uint64_t kept_version = 0;
    uint64_t computed_with = 0;  // GSP: version of the weights that its first gradient was computed with
  };
  struct Sent {  // an answer
    Worker worker = 0;
    uint64_t version = 0;
  };
  struct Books {  // of one server
    std::vector<Member> members;
    std::vector<Round> rounds;   // by group
    std::vector<Step> contents;  // what the weights contain, as in Round::kept
    uint64_t version = 0;
    std::vector<uint64_t> taken;          // by worker: version of the weights that it received last
    std::vector<uint64_t> computes_with;  // by worker: version of the weights with which it began its last step
  };

  void require(bool holds, std::string_view what);
  void note(std::string_view path) { paths[path]++; }
  Gradient& gradient(Books& books, Worker worker, Step step);
  [[nodiscard]] bool is_missing(const Books& books, Worker worker) const;
  [[nodiscard]] uint32_t missing(const Books& books, Group group) const;
  [[nodiscard]] std::optional<Step> slowest(const Books& books) const;

  void on_push(Books& books, const Push& push, const Effect& effect);
  void on_apply(Books& books, const Apply& apply, const Event& event);
  void on_keep(Books& books, const Keep& keep, const Event& event);
  void on_answer(Books& books, const Answer& answer, const Event& event);
  void on_park(Books& books, const Park& park, const Event& event);
  void on_reject(Books& books, const Reject& reject, const Event& event);
  void before(Books& books, const Event& event);
  void go_on(Books& books, Group group);
  void open_rounds(Books& books);
  void check(Books& books, const Machine& machine);
  void check_contents(const Books& books, const Answer& answer);

  const Policy policy_;
  std::vector<Books> books_;                // by server
  std::vector<Sent> sent_;                  // by number
  std::vector<std::optional<Step>> begun_;  // by worker: the last step that its current process began
  uint64_t events_ = 0;
};

}  // namespace dtrain::sync
