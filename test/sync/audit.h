// Watches a simulation and says what should never have happened. It keeps its own books of who is where, in plain loops
// over all workers, and compares the machine with them after each event: so it is a second writing of the protocol, the
// slow and obvious one.
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
  // What can only be said at the end.
  void finish(const Outcome& outcome);

  std::vector<std::string> broken;  // with the number of the event; empty: all held
  // How often each path was taken, those never taken included: a path that no seed reaches was not tested.
  std::map<std::string_view, uint64_t> paths;
  std::string trace;    // of all servers: slice 0.N is server N's
  Step lead_max = 0;    // rounds by which a worker that began one was ahead of the slowest live one
  Step spread_max = 0;  // rounds between the fastest and the slowest live worker

 private:
  enum class Gradient : uint8_t { kNone, kAdded, kLate, kApplied };
  struct Member {
    Group group = 0;
    bool live = true;
    Step next = 0;  // to push
    std::optional<Step> parked;
    std::vector<Gradient> gradients;  // by step
  };
  struct Round {
    Step step = 0;
    Step open = 0;
    std::vector<Worker> added;
    uint64_t seen = 0;           // version after the last update or Keep
    std::vector<Step> kept;      // by worker: one past the last step that is in the weights of the last Keep
    std::vector<Step> promised;  // as `kept`: of the weights when the round opened
    uint64_t kept_version = 0;
    uint64_t computed_with = 0;  // GSP: version of the weights that the first gradient of the round is of
  };
  struct Sent {  // an answer
    Worker worker = 0;
    uint64_t version = 0;
  };
  struct Books {  // of a server
    std::vector<Member> members;
    std::vector<Round> rounds;   // by group
    std::vector<Step> contents;  // of the weights, as Round::kept
    uint64_t version = 0;
    std::vector<uint64_t> taken;          // by worker: version of the weights that it took last
    std::vector<uint64_t> computes_with;  // by worker: of those with which it began its last step
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
  std::vector<std::optional<Step>> begun_;  // by worker: the step that its present process began last
  uint64_t events_ = 0;
};

}  // namespace dtrain::sync
