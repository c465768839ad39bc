// The synchronization protocol of one slice as a pure state machine: it decides which worker waits for which. It takes
// events and returns effects. It never sees a gradient, a socket, a clock or a log, so the server
// (kvstore/server/shard.h) and the simulator drive the same code. See docs/protocol.md, "Schemes".
//
// All schemes use this machine; only the policy differs. Workers are divided into groups, and a group completes one
// round per step: each live member adds one gradient, and the last one triggers the update with the group's sum. BSP
// has a single group, ASP and SSP have one group per worker, and GSP lies in between. After a round is applied, the
// next round opens for the group's members: at once, or, with a bound, as soon as the slowest group is close enough.
//
// The cost of an event does not depend on the number of workers, except for the answers that it releases and for a
// Leave.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain::sync {

using Worker = uint32_t;  // a worker's rank, counted from 0
using Group = uint32_t;
using Step = uint64_t;  // a worker's own step number; counts from 0 over the whole run

// A consistency scheme as data.
struct Policy {
  std::vector<Group> group_of = {};   // the group of each worker, indexed by worker
  std::optional<Step> lead_max = {};  // rounds that a group may be ahead of the slowest live one; nullopt: no bound
  // If true, an Answer carries the weights as they were when the group's round opened, so all members get the same
  // ones. If false, it carries the newest weights.
  bool snapshots = false;
  // The number of live members for whose gradients a round does not wait. A round without any gradient is never
  // applied.
  uint32_t backup = 0;
};
Group group_count(const Policy& policy);  // the number of groups, which are numbered from 0
// Whether all workers begin each step with the same weights: one group, in which no gradient comes too late.
bool has_same_weights(const Policy& policy);
Policy bsp(uint32_t workers, uint32_t backup = 0);
Policy asp(uint32_t workers);
Policy ssp(uint32_t workers, Step lead_max);
Policy gsp(std::vector<Group> group_of, std::optional<Step> lead_max = std::nullopt);

// The events, one line each, so that they read as a table. A Refresh is a Pull at the end of an epoch that asks for the
// newest weights. It is sent once all workers have stopped, and no worker may join until every Refresh is answered.
// clang-format off
struct Push { Worker worker; Step step; };     // this slice's gradient of `step` has arrived, perhaps again
struct Pull { Worker worker; Step step; };     // the worker wants the weights for starting `step`
struct Refresh { Worker worker; Step step; };  // the worker wants the newest weights; its next step is `step`
struct Join { Worker worker; Step step; };     // the worker takes part from `step` on
struct Leave { Worker worker; };               // the worker is done, dead or silent for too long, as the driver decides
using Event = std::variant<Push, Pull, Refresh, Join, Leave>;

struct Add { Worker worker; Group group; };         // sum this gradient into the group's accumulator
struct Drop { Worker worker; Step step; };          // the push arrived before: acknowledge it and discard it
struct Late { Worker worker; Step step; };          // the push missed its round (backup): acknowledge and count it
struct Apply { Group group; uint64_t staleness; };  // apply the sum; staleness 1: no update came in between
struct Keep { Group group; };                       // save a snapshot of the current weights for the group
struct Answer { Worker worker; Group group; Step step; };  // send the group's snapshot; it begins `step`
struct Park { Worker worker; Worker waits_for; };   // the worker's pull waits; the log names a worker that it waits for
struct Reject { Worker worker; const char* why; };  // a mistake of a peer is an effect, not a DT_CHECK
using Effect = std::variant<Add, Drop, Late, Apply, Keep, Answer, Park, Reject>;
// clang-format on

// One machine for each slice. It is a value type: a copy of it is a copy of the protocol's state.
//
// The step of an Answer is never smaller than the step of the pull. It is larger if the round that was pulled for is
// over. This happens to a pull that is repeated after it was answered, and to a worker that was left behind under
// `backup`, which jumps to the open round. A worker that gets answers for several slices begins the smallest of their
// steps, so its push is never ahead of any slice.
class Machine {
 public:
  // All workers of the policy take part from step `begin` on, the step after the last one that was applied before.
  explicit Machine(Policy policy, Step begin = 0) : Machine(std::move(policy), begin, {}) {}
  // The same at a version that says nothing about the steps: the members of each group take part from `rounds[group]`
  // on. Empty: all from step `version` on.
  Machine(Policy policy, uint64_t version, const std::vector<Step>& rounds);

  // Appends the effects of `event` to `out`, in the order in which to carry them out. Deterministic: the same events
  // give the same effects.
  void on(const Event& event, std::vector<Effect>& out);

  // The effect that the push would have if it were the next event: Add, Drop, Late or Reject.
  [[nodiscard]] Effect preview(const Push& push) const;
  // The version of the slice: `begin` plus the number of updates.
  [[nodiscard]] uint64_t version() const { return version_; }
  // The number of rounds that the worker's group has completed. The worker must be in the policy.
  [[nodiscard]] Step clock(Worker worker) const { return groups_[workers_[worker].group].round; }
  // The workers that a pull waits for, sorted by rank. Empty if it would be answered at once. Takes time proportional
  // to the number of workers.
  [[nodiscard]] std::vector<Worker> missing(const Pull& pull) const;

 private:
  struct WorkerState {
    Group group = 0;
    bool live = true;
    // The first step that the worker has not pushed; larger than the group's round once the round has its gradient.
    Step next = 0;
    std::optional<Step> parked = {};  // the step for whose weights the worker's pull waits; nullopt: no pull waits
  };
  struct GroupState {
    size_t begin = 0, end = 0;  // the range of the group's members in by_group_
    Step round = 0;             // the step whose gradients are being summed
    Step open = 0;              // the last step that members may begin: `round`, or less while the bound holds it back
    uint64_t added = 0;         // number of gradients in the accumulator
    uint32_t live = 0;          // number of members that take part
    uint32_t present = 0;       // live members whose gradients the round does not wait for (next > round)
    uint64_t base_version = 0;  // version_ after the group's last Apply or Keep; its members compute with these weights
    bool is_refreshed = false;  // whether a Refresh was answered in this round
    size_t search_from = 0;     // position in by_group_ before which no member is missing from the round
    std::vector<Worker> early;  // live members whose first step comes after `round`, because they joined later
    std::vector<Worker> parked;  // workers whose pulls wait, in order of arrival
  };
  using Place = std::pair<Step, Group>;  // a group's round, and the group

  void on_push(const Push& push, std::vector<Effect>& out);
  void on_pull(const Pull& pull, std::vector<Effect>& out);
  void on_refresh(const Refresh& refresh, std::vector<Effect>& out);
  void on_join(const Join& join, std::vector<Effect>& out);
  void on_leave(const Leave& leave, std::vector<Effect>& out);

  // Applies the group's round unless it still waits for a member.
  void close_round(Group group, std::vector<Effect>& out);
  void move_to(Group group, Step round);
  // Lets the group's members begin its round, or holds the round back until the bound allows it.
  void open_round(Group group, std::vector<Effect>& out);
  void open_held(std::vector<Effect>& out);
  void keep(Group group, std::vector<Effect>& out);
  void answer(Worker worker, std::vector<Effect>& out);

  // Why the worker may not ask for weights; null if it may.
  [[nodiscard]] const char* objection(Worker worker) const;
  [[nodiscard]] bool is_missing(Worker worker) const;  // whether the round of the worker's group waits for the worker
  [[nodiscard]] bool within_bound(Step round) const;
  // The first member that the group's round waits for; requires a round that is not complete.
  [[nodiscard]] Worker first_missing(Group group);
  void set_live(Worker worker, bool live);

  Policy policy_;
  std::vector<WorkerState> workers_;  // the state of each worker, indexed by worker
  std::vector<GroupState> groups_;    // the state of each group, indexed by group
  std::vector<Worker> by_group_;      // all workers, sorted by group, then rank
  std::set<Place> rounds_;            // one for each group that has a live member; maintained only if there is a bound
  std::set<Place> held_;              // groups whose round is not open yet
  uint64_t version_;
};

}  // namespace dtrain::sync
