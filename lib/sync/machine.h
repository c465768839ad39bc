// Who waits for whom: the protocol of one slice as a pure machine. Events in, effects out; no gradient, socket, clock
// or log in sight, so that the server (kvstore/shard.h) and the simulator drive the very same code. distributed.md
// section 2.
//
// The four schemes are one machine with four policies. Workers are in groups, and a group does a round a step: each of
// its live members adds one gradient, the last one lets the group's sum be applied. So BSP is one group, ASP and SSP
// have a group a worker, GSP what is between; SSP's bound makes groups wait for the slowest one before they begin a
// step.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace dtrain::sync {

using Worker = uint32_t;  // rank, 0-based
using Group = uint32_t;
using Step = uint64_t;  // of one worker, from 0 over the whole run

// A consistency scheme as data. BSP: all workers in one group. ASP, SSP: each worker a group of its own. GSP: as
// configured.
struct Policy {
  std::vector<Group> group_of = {};   // by worker
  std::optional<Step> lead_max = {};  // SSP: steps a worker may be ahead of the slowest live one; nullopt: no bound
  // GSP: an answer has the weights of the group's own last update, equal for all members. Otherwise the newest.
  bool snapshots = false;
};
Policy bsp(uint32_t workers);
Policy asp(uint32_t workers);
Policy ssp(uint32_t workers, Step lead_max);
Policy gsp(std::vector<Group> group_of);

// One line each, so that they read as a table.
// clang-format off
struct Push { Worker worker; Step step; };  // the gradient of `step` for this slice has arrived, maybe for the second time
struct Pull { Worker worker; Step step; };  // wants the weights that `step` begins with
struct Join { Worker worker; Step step; };  // takes part from `step` on
struct Leave { Worker worker; };            // done, dead or silent for too long: the driver says which, and when
using Event = std::variant<Push, Pull, Join, Leave>;

struct Add { Worker worker; Group group; };         // sum this gradient into the group's accumulator
struct Drop { Worker worker; Step step; };          // a push that was added before: acknowledge it and forget it
struct Apply { Group group; uint64_t staleness; };  // update the weights with the sum; 1 = nobody else came between
struct Keep { Group group; };                       // remember the weights as they are now
struct Answer { Worker worker; Group group; Step step; };  // send what was kept for the group to its pull of `step`
struct Park { Worker worker; Worker waits_for; };   // its pull waits; for the log line that names whom a worker waits for
struct Reject { Worker worker; const char* why; };  // a peer's mistake is an effect, not a DT_CHECK
using Effect = std::variant<Add, Drop, Apply, Keep, Answer, Park, Reject>;
// clang-format on

// One a slice. A value: copying it copies the protocol's state.
class Machine {
 public:
  // All workers of the policy take part from step `begin` on, the one after the last that was applied before.
  explicit Machine(Policy policy, Step begin = 0);

  // Appends the effects of `event` in the order to carry them out. Same events, same effects, always.
  void on(const Event& event, std::vector<Effect>& out);

  // What the push would be met with, were it the next event: Add, Drop or Reject.
  [[nodiscard]] Effect verdict(const Push& push) const;
  // Updates so far, counted on from `begin`: the version of the slice.
  [[nodiscard]] uint64_t version() const { return version_; }
  // Steps that the worker's group has applied. The worker must be one of the policy's.
  [[nodiscard]] Step clock(Worker worker) const { return groups_[members_[worker].group].round; }
  // Whom a pull waits for, in order of rank. Empty: nobody, it would be answered.
  [[nodiscard]] std::vector<Worker> missing(const Pull& pull) const;

 private:
  struct Member {
    Group group = 0;
    bool live = true;
    Step next = 0;  // the first step that was not pushed; one past the group's round once it has added to it
  };
  struct GroupState {
    Step round = 0;            // the step that is being summed
    uint64_t added = 0;        // gradients in the accumulator
    uint64_t last_update = 0;  // version right after the group's last update
  };

  void on_push(const Push& push, std::vector<Effect>& out);
  void on_pull(const Pull& pull, std::vector<Effect>& out);
  void on_join(const Join& join, std::vector<Effect>& out);
  void on_leave(const Leave& leave, std::vector<Effect>& out);

  // Applies the group's round if nobody is missing from it; true if the group has moved on to a later one.
  bool close_round(Group group, std::vector<Effect>& out);
  void apply(Group group, std::vector<Effect>& out);
  // Answers, in order of arrival, whoever has got what its pull waited for.
  void answer_parked(std::vector<Effect>& out);
  void answer(const Pull& pull, std::vector<Effect>& out) const;

  [[nodiscard]] bool is_live(Worker worker) const { return worker < members_.size() && members_[worker].live; }
  [[nodiscard]] bool is_missing(Worker worker) const;  // from the round of its group
  [[nodiscard]] bool round_is_complete(Group group) const;
  [[nodiscard]] Step slowest() const;  // the earliest round of a group in which somebody takes part
  [[nodiscard]] bool may_begin(const Pull& pull, Step slowest) const;

  Policy policy_;
  std::vector<Member> members_;     // by worker
  std::vector<GroupState> groups_;  // by group
  std::vector<Pull> parked_;        // in order of arrival, one a worker
  uint64_t version_;
};

}  // namespace dtrain::sync
