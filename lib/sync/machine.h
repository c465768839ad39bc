// Who waits for whom: the protocol of one slice as a pure machine. Events in, effects out; no gradient, socket, clock
// or log in sight, so that the server (kvstore/shard.h) and the simulator drive the very same code. distributed.md
// section 2.
//
// The schemes are one machine with a policy each. Workers are in groups, and a group does a round a step: each of its
// live members adds one gradient, the last one lets the group's sum be applied. So BSP is one group, ASP and SSP have a
// group a worker, GSP what is between. A round that is applied opens the next one to the group's members: at once, or,
// with a bound, when the slowest group has come near enough.
//
// What an event costs does not grow with the number of workers, but for the answers that it gives and for a leave.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain::sync {

using Worker = uint32_t;  // rank, 0-based
using Group = uint32_t;
using Step = uint64_t;  // of one worker, from 0 over the whole run

// A consistency scheme as data.
struct Policy {
  std::vector<Group> group_of = {};   // by worker
  std::optional<Step> lead_max = {};  // rounds that a group may be ahead of the slowest live one; nullopt: no bound
  // An answer has the weights as they were when the group's round opened, equal for all members. Otherwise the newest.
  bool snapshots = false;
  uint32_t backup = 0;  // a round is applied without the last so many live members, though never without a gradient
};
Group group_count(const Policy& policy);  // groups are 0 .. group_count - 1
Policy bsp(uint32_t workers, uint32_t backup = 0);
Policy asp(uint32_t workers);
Policy ssp(uint32_t workers, Step lead_max);
Policy gsp(std::vector<Group> group_of, std::optional<Step> lead_max = std::nullopt);

// One line each, so that they read as a table.
// clang-format off
struct Push { Worker worker; Step step; };     // the gradient of `step` for this slice has arrived, maybe for the second time
struct Pull { Worker worker; Step step; };     // wants the weights that `step` begins with
struct Refresh { Worker worker; Step step; };  // a Pull at an epoch's end: wants the newest. Begins when all have stopped; nobody joins until all have it
struct Join { Worker worker; Step step; };     // takes part from `step` on
struct Leave { Worker worker; };               // done, dead or silent for too long: the driver says which, and when
using Event = std::variant<Push, Pull, Refresh, Join, Leave>;

struct Add { Worker worker; Group group; };         // sum this gradient into the group's accumulator
struct Drop { Worker worker; Step step; };          // a push that came before: acknowledge it and forget it
struct Late { Worker worker; Step step; };          // its round is over without it (backup): lost. Acknowledge it, count it
struct Apply { Group group; uint64_t staleness; };  // update the weights with the sum; 1 = nobody else came between
struct Keep { Group group; };                       // remember the weights as they are now
struct Answer { Worker worker; Group group; Step step; };  // send what was kept for the group: `step` begins with it
struct Park { Worker worker; Worker waits_for; };   // its pull waits; for the log line that names whom a worker waits for
struct Reject { Worker worker; const char* why; };  // a peer's mistake is an effect, not a DT_CHECK
using Effect = std::variant<Add, Drop, Late, Apply, Keep, Answer, Park, Reject>;
// clang-format on

// One a slice. A value: copying it copies the protocol's state.
//
// An Answer's step is never before the pull's. It is later where the round that was pulled for is over: for a pull that
// was answered before and came again, and for a worker that backup left behind, which jumps to the open round. A worker
// of several slices begins the smallest of their steps: so no push is ever ahead of a slice.
class Machine {
 public:
  // All workers of the policy take part from step `begin` on, the one after the last that was applied before.
  explicit Machine(Policy policy, Step begin = 0);

  // Appends the effects of `event` in the order to carry them out. Same events, same effects, always.
  void on(const Event& event, std::vector<Effect>& out);

  // What the push would be met with, were it the next event: Add, Drop, Late or Reject.
  [[nodiscard]] Effect verdict(const Push& push) const;
  // Updates so far, counted on from `begin`: the version of the slice.
  [[nodiscard]] uint64_t version() const { return version_; }
  // Rounds that the worker's group has done. The worker must be one of the policy's.
  [[nodiscard]] Step clock(Worker worker) const { return groups_[members_[worker].group].round; }
  // Whom a pull waits for, in order of rank. Empty: nobody, it would be answered. Looks at all workers.
  [[nodiscard]] std::vector<Worker> missing(const Pull& pull) const;

 private:
  struct Member {
    Group group = 0;
    bool live = true;
    Step next = 0;                    // the first step that was not pushed; past the group's round once it is in it
    std::optional<Step> parked = {};  // the step that its pull waits for
  };
  struct GroupState {
    size_t begin = 0, end = 0;   // its members in by_group_
    Step round = 0;              // the step that is being summed
    Step open = 0;               // the last step that its members may begin: `round`, or before if the bound holds it
    uint64_t added = 0;          // gradients in the accumulator
    uint32_t live = 0;           // members
    uint32_t present = 0;        // live members that the round does not wait for, as next > round
    uint64_t seen = 0;           // version after its last update or Keep: what its members compute with
    bool is_refreshed = false;   // in this round
    size_t search_from = 0;      // in by_group_: nobody before it is missing from the round
    std::vector<Worker> early;   // live members that joined with a later step to push
    std::vector<Worker> parked;  // in order of arrival
  };
  using Place = std::pair<Step, Group>;  // a group's round, and the group

  void on_push(const Push& push, std::vector<Effect>& out);
  void on_pull(const Pull& pull, std::vector<Effect>& out);
  void on_refresh(const Refresh& refresh, std::vector<Effect>& out);
  void on_join(const Join& join, std::vector<Effect>& out);
  void on_leave(const Leave& leave, std::vector<Effect>& out);

  // Applies the group's round if it waits for nobody any more.
  void close_round(Group group, std::vector<Effect>& out);
  void move_to(Group group, Step round);
  // Lets the group's members begin its round, or holds them until the bound allows it.
  void open_round(Group group, std::vector<Effect>& out);
  void open_held(std::vector<Effect>& out);
  void keep(Group group, std::vector<Effect>& out);
  void answer(Worker worker, std::vector<Effect>& out);

  // Why the worker cannot ask for weights; nullptr: it can.
  [[nodiscard]] const char* objection(Worker worker) const;
  [[nodiscard]] bool is_missing(Worker worker) const;  // from the round of its group
  [[nodiscard]] bool within_bound(Step round) const;
  [[nodiscard]] Worker first_missing(Group group);  // of a round that is not complete
  void set_live(Worker worker, bool live);

  Policy policy_;
  std::vector<Member> members_;     // by worker
  std::vector<GroupState> groups_;  // by group
  std::vector<Worker> by_group_;    // in order of group and rank
  std::set<Place> rounds_;          // of the groups in which somebody takes part; kept only if there is a bound
  std::set<Place> held_;            // groups whose round is not open
  uint64_t version_;
};

}  // namespace dtrain::sync
