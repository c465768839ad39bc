// What must hold in every simulated job with workers that come and go. The audit is told in plain numbers what the
// processes did, and keeps books of its own; it uses no code of the rooms that it checks.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::simulated {

using ProcessId = uint64_t;
using Ms = uint64_t;

constexpr uint64_t kNoBound = uint64_t{1} << 40;

// Who has a seat in somebody's view: the process, 0 if nobody has it, and whether it takes part already.
struct SeatSeen {
  ProcessId process = 0;
  bool is_live = false;
  uint64_t begin = 0;  // the first step
};

struct Rules {
  std::vector<uint32_t> group_of;  // of each seat
  uint64_t lead_max = kNoBound;
  uint32_t backup = 0;
  std::vector<std::vector<uint32_t>> slices_of = {};  // by server
  uint32_t parameter_slices = 0;  // the slices with the next numbers hold statistics, whose rounds are of all workers
  uint32_t statistics = 0;
  Ms patience_ms = 0;   // how long a view may be on its way to a process
  Ms detection_ms = 0;  // how long a process that is gone may count as live
  bool stands_still = false;
  Ms rejoin_ms = 0;        // how long the others stand still for a lost worker
  uint32_t records = 0;    // that the workers of a step with the same weights divide; 0: they do not
  bool is_group = false;   // whether there are no servers, so that the workers add up their gradients in a group
  bool goes_back = false;  // when a server is lost
  Ms group_ms = 0;         // how long a worker may wait in a group for one that takes no part anymore
};

class Audit {
 public:
  explicit Audit(Rules rules) : rules_(std::move(rules)), views_(rules_.slices_of.size()) {
    const size_t seats = rules_.group_of.size();
    slices_.resize(rules_.parameter_slices + rules_.statistics);
    for (size_t s = 0; s < slices_.size(); s++) {
      Slice& slice = slices_[s];
      slice.is_statistic = s >= rules_.parameter_slices;
      slice.next.resize(seats);
      slice.taken.resize(seats);
      slice.waits.resize(seats);
      slice.group_of = slice.is_statistic ? std::vector<uint32_t>(seats, 0) : rules_.group_of;
      slice.groups.resize(seats);
    }
  }

  // What was broken first; empty: nothing.
  [[nodiscard]] const std::string& broken() const { return broken_; }
  // What has happened, and how often.
  [[nodiscard]] const std::map<std::string_view, uint64_t>& paths() const { return paths_; }

  // ---- Views.

  void scheduler_has(Ms now, uint64_t number, std::vector<SeatSeen> seats) {
    require(now, newest_.seats.empty() || number > newest_.number, "the scheduler's view did not get a higher number");
    newest_ = {.number = number, .seats = std::move(seats), .is_known = true};
  }
  // A process begins as this server, perhaps in the place of a lost one.
  void server_begins(uint32_t server) {
    views_[server] = {};
    views_[server].is_new = true;
    for (const uint32_t s : rules_.slices_of[server]) std::ranges::fill(slices_[s].waits, std::nullopt);
  }
  // All slices of parameters of the server go back to this version, and all of its workers take part from there.
  void server_goes_back(uint32_t server, uint64_t version) {
    views_[server].newcomers.clear();
    views_[server].is_new = false;
    for (const uint32_t s : rules_.slices_of[server]) {
      begins_rounds(slices_[s], slices_[s].is_statistic ? slices_[s].groups.front().round : version);
    }
  }
  // The next round of this slice has this number.
  void statistic_begins(uint32_t slice, uint64_t round) { begins_rounds(slices_[slice], round); }
  // The run goes back: steps from this one on count as if nobody had made them.
  void undoes(uint64_t step) {
    for (const auto& batch : history_) {
      if (batch.step < step) continue;
      Epoch& books = epochs_[batch.epoch];
      books.has_ended = false;
      for (const int64_t record : batch.records) {
        Record& one = books.of_record[static_cast<size_t>(record)];
        one.is_read = false;
        one.sent.reset();
      }
    }
    std::erase_if(history_, [&](const Batch& batch) { return batch.step >= step; });
    std::erase_if(last_, [&](const auto& entry) { return entry.second.step >= step; });
  }
  // The server is about to follow a view, and has followed it.
  void server_has(Ms now, uint32_t server, uint64_t number, const std::vector<SeatSeen>& seats) {
    View& view = views_[server];
    require(now, !view.is_known || number >= view.number, "a server went back to an older view");
    for (uint32_t rank = 0; rank < seats.size(); rank++) {
      const SeatSeen was = view.is_known ? view.seats[rank] : SeatSeen();
      const bool is_same = was.is_live && seats[rank].is_live && was.process == seats[rank].process;
      if (was.is_live && !is_same) leaves(rank, server);
      if (seats[rank].is_live && !is_same) view.newcomers.insert(rank);
    }
    view.number = number;
    view.seats = seats;
    view.is_known = true;
  }
  void server_follows(uint32_t server) {
    View& view = views_[server];
    for (const uint32_t rank : view.newcomers) joins(view, rank, server);
    view.newcomers.clear();
  }
  void server_is_gone(uint32_t server) { views_[server].is_gone = true; }
  // The scheduler answers the process's request to join.
  void admits(Ms now, ProcessId process, uint32_t rank) {
    for (const View& view : views_) {
      require(now, view.is_gone || (view.is_known && view.seats[rank].process == process),
              "a worker was admitted before a server knew of it");
    }
  }

  // ---- The workers.

  void begins(Ms now, ProcessId process, uint32_t rank) {
    for (const View& view : views_) {
      const bool knows = view.is_known && view.seats[rank].process == process && view.seats[rank].is_live;
      const bool is_missing = view.is_gone || view.is_new;
      require(now, is_missing || knows || !is_seated(process), "a worker began before a server knew of it");
    }
  }
  // The process is about to ask for a seat as another one.
  void asks_again(Ms now, ProcessId process) {
    require(now, !is_seated(process), "a process asked for a seat although it has one");
  }
  void is_gone(Ms now, ProcessId process) { gone_.try_emplace(process, now); }
  void has_ended(ProcessId process) { ended_.insert(process); }

  // ---- The slices.

  // A message of this process reaches a slice.
  void hears(Ms now, uint32_t server, uint32_t rank, ProcessId process) {
    require(now, views_[server].seats[rank].process == process, "a server listened to a process without a seat");
  }
  void adds(Ms now, uint32_t slice_number, uint32_t server, uint32_t rank, ProcessId process, uint64_t step) {
    Slice& slice = slices_[slice_number];
    const SeatSeen& seat = views_[server].seats[rank];
    require(now, seat.is_live && seat.process == process, "a gradient was added of a process that has no seat");
    require(now, slice.taken[rank].insert(step).second, "a gradient was added twice");
    Group& group = slice.groups[slice.group_of[rank]];
    require(now, step >= group.round, "a gradient was added to a round that is over");
    require(now, group.added.empty() || group.adding == step, "a round has gradients of two steps");
    group.adding = step;
    group.added.push_back(rank);
    slice.next[rank] = step + 1;
    if (const auto last = last_.find(process); last != last_.end() && !slice.is_statistic) last->second.is_sent = true;
  }
  void discards(Ms now, uint32_t slice_number, uint32_t rank, uint64_t step) {
    require(now, step < slices_[slice_number].next[rank], "a gradient was discarded that no one had sent");
    note("a gradient came again");
  }
  void is_late(Ms now, uint32_t slice_number, uint32_t rank, uint64_t step) {
    Slice& slice = slices_[slice_number];
    const Group& group = slice.groups[slice.group_of[rank]];
    require(now, rules_.backup > 0 && !slice.is_statistic && step < group.round, "a gradient missed its round");
    slice.next[rank] = std::max(slice.next[rank], step + 1);
    note("a gradient came too late for its round");
  }
  void applies(Ms now, uint32_t slice_number, uint32_t server, uint32_t number) {
    Slice& slice = slices_[slice_number];
    Group& group = slice.groups[number];
    require(now, !group.added.empty(), "a round without gradients was closed");
    require(now, group.adding >= group.round, "a round was closed twice");
    uint32_t missing = 0;
    for (uint32_t rank = 0; rank < slice.next.size(); rank++) {
      const bool counts = views_[server].counts(rank) && slice.group_of[rank] == number;
      if (counts && slice.next[rank] <= group.adding) missing++;
    }
    require(now, missing <= (slice.is_statistic ? 0 : rules_.backup), "a round was closed before it was complete");
    group.round = group.adding + 1;
    group.added.clear();
  }
  void waits(uint32_t slice, uint32_t rank, uint64_t step) {
    slices_[slice].waits[rank] = Wait{.step = step, .idle_since = {}};
  }
  void answers(Ms now, uint32_t slice_number, uint32_t server, uint32_t rank, uint64_t step) {
    Slice& slice = slices_[slice_number];
    slice.waits[rank].reset();
    uint32_t missing = 0;
    bool is_within = true;
    for (uint32_t other = 0; other < slice.next.size(); other++) {
      if (!views_[server].counts(other)) continue;
      if (slice.group_of[other] == slice.group_of[rank] && slice.next[other] < step) missing++;
      is_within = is_within && slice.next[other] + lead_in(slice) >= step;
    }
    const bool ignores_others = rules_.backup > 0 && !slice.is_statistic;
    require(now, missing <= (ignores_others ? rules_.backup : 0), "a worker may begin before its group is complete");
    require(now, is_within, "a worker may lead by more than the bound");
  }
  // New groups at a moment at which all workers stand still.
  void begins_rounds(const std::vector<uint32_t>& group_of, uint64_t step) {
    for (uint32_t s = 0; s < rules_.parameter_slices; s++) {
      Slice& slice = slices_[s];
      slice.group_of = group_of;
      std::ranges::fill(slice.next, step);
      slice.groups.assign(group_of.size(), Group{.round = step, .adding = 0, .added = {}});
    }
  }

  // ---- Groups. A worker has all versions of each bucket of weights, each made from the one before.

  // The bucket of this worker gets the sum of the gradients of these processes for this step.
  void adds_up(Ms now, ProcessId process, uint64_t version, uint64_t step, const std::vector<ProcessId>& members) {
    require(now, version == step, "a gradient was added to weights that have it, or that lack an earlier one");
    require(now, std::ranges::count(members, process) == 1, "a worker took the sum of a group without it");
    if (lost_.count(process) > 0) return;
    for (const ProcessId member : members) {
      for (Batch& batch : recent_[member]) batch.is_sent = batch.is_sent || batch.step == step;
    }
  }
  // All members of the group with this number have these weights before this step.
  void has_weights(Ms now, uint64_t group, uint64_t step, uint64_t weights) {
    const auto [known, is_first] = weights_.try_emplace({group, step}, weights);
    require(now, is_first || known->second == weights, "workers of a group have different weights");
  }
  // The members of the group with this number continue with this step, which some of them may have begun before.
  void continues_from(uint64_t group, uint64_t step) {
    if (!continued_.insert(group).second) return;
    for (auto& [process, batches] : recent_) {
      for (const Batch& batch : batches) {
        if (batch.step >= step) unread(batch);
      }
      std::erase_if(batches, [&](const Batch& batch) { return batch.step >= step; });
    }
  }
  // The run goes back to the beginning of this epoch; the same division for all workers.
  void goes_back(uint64_t division, uint64_t epoch) {
    if (!continued_.insert(division).second) return;
    epochs_.erase(epochs_.lower_bound(epoch), epochs_.end());
    recent_.clear();
  }
  // The worker waits for other members of its group, or does so no longer.
  void waits_in_group(ProcessId process, std::vector<ProcessId> members) {
    group_waits_[process] = {.members = std::move(members), .idle_since = {}};
  }
  void runs_in_group(ProcessId process) { group_waits_.erase(process); }

  // ---- Barriers.

  void enters(uint32_t rank) { inside_.insert(rank); }
  void releases() {
    inside_.clear();
    idle_since_.reset();
  }
  void is_vacant(Ms now, uint32_t rank) { vacant_.try_emplace(rank, now); }
  void is_taken(uint32_t rank) { vacant_.erase(rank); }

  // ---- The records of an epoch.

  // The worker is about to read these records, and no others, of what is left of the epoch. All `workers` workers that
  // divide the same rest say so with the same number.
  void divides(Ms now, ProcessId process, uint64_t epoch, uint64_t division, size_t workers,
               const std::vector<int64_t>& records) {
    if (lost_.count(process) > 0) return;  // it does not know yet that nothing of it counts
    Epoch& books = epochs_[epoch];
    books.of_record.resize(rules_.records);
    Division& parts = books.divisions[division];
    parts.workers = workers;
    parts.known++;
    for (const int64_t record : records) {
      Record& one = books.of_record[static_cast<size_t>(record)];
      require(now, one.division != division || one.owner == process, "two workers were given the same record");
      require(now, !one.is_read || one.division == division, "a record was given out that had been read");
      one.owner = process;
      one.division = division;
    }
  }
  // The worker begins this step with these records.
  void reads(Ms now, ProcessId process, uint32_t rank, uint64_t step, uint64_t epoch,
             const std::vector<int64_t>& records) {
    if (lost_.count(process) > 0) return;
    const Batch batch{.rank = rank, .step = step, .epoch = epoch, .records = records, .is_sent = false};
    if (rules_.is_group) {
      std::erase_if(recent_[process], [&](const Batch& one) { return one.step + 2 < step; });
      recent_[process].push_back(batch);
    } else {
      last_[process] = batch;
      if (rules_.goes_back) history_.push_back(batch);
    }
    for (const int64_t record : records) {
      Record& one = epochs_[epoch].of_record[static_cast<size_t>(record)];
      require(now, !rules_.is_group || !one.is_read, "a record was read twice");
      const bool is_sent_again = one.sent && *one.sent != std::pair(rank, step);
      if (is_sent_again) note("a lost worker's last gradient counts, and its records were read again");
      one.is_read = true;
      one.owner = process;
    }
  }
  // The worker has left, so nothing of it is lost but what it has not begun.
  void has_left(ProcessId process) { lost_.insert(process); }
  // The job continues without the worker. Its last batch may be read again, or not: nobody knows how far it came.
  void has_lost(ProcessId process) {
    lost_.insert(process);
    for (const Batch& batch : recent_[process]) {
      if (!batch.is_sent) unread(batch);
    }
    if (const auto last = last_.find(process); last != last_.end()) unread(last->second);
  }
  void ends_epoch(Ms now, uint64_t epoch) {
    const auto found = epochs_.find(epoch);
    if (found == epochs_.end() || std::exchange(found->second.has_ended, true)) return;
    // A worker may be lost before it knows its part.
    const bool all_known = std::ranges::all_of(
        found->second.divisions, [](const auto& entry) { return entry.second.known >= entry.second.workers; });
    for (const Record& one : found->second.of_record) {
      if (one.is_read || one.sent) continue;
      require(now, all_known ? lost_.count(one.owner) > 0 : !lost_.empty(),
              "a record was not read although nobody was lost who should have read it");
      note("a record was left out");
    }
  }

  // Time has passed. `is_running`: whether the job neither starts nor ends.
  void look(Ms now, bool is_running) {
    if (!is_running || !newest_.is_known) return;
    look_at_gone(now);
    look_at_slices(now);
    look_at_groups(now);
    look_at_barrier(now);
  }

 private:
  struct View {
    uint64_t number = 0;
    std::vector<SeatSeen> seats = {};
    bool is_known = false;
    bool is_gone = false;
    bool is_new = false;                // it has no values yet
    std::set<uint32_t> newcomers = {};  // those that the slices of a server are about to let in
    [[nodiscard]] bool counts(uint32_t rank) const { return seats[rank].is_live && newcomers.count(rank) == 0; }
  };
  struct Wait {
    uint64_t step = 0;
    std::optional<Ms> idle_since = {};  // since when the wait is for nobody who takes part
  };
  struct Group {
    uint64_t round = 0;                // the first one that is not closed
    uint64_t adding = 0;               // the step of the gradients in the sum
    std::vector<uint32_t> added = {};  // their ranks
  };
  struct Slice {
    bool is_statistic = false;
    std::vector<uint32_t> group_of = {};
    std::vector<uint64_t> next = {};  // by rank: the first step of which no gradient has come
    std::vector<std::set<uint64_t>> taken = {};
    std::vector<std::optional<Wait>> waits = {};
    std::vector<Group> groups = {};
  };
  struct Record {
    ProcessId owner = 0;
    uint64_t division = 0;
    bool is_read = false;
    std::optional<std::pair<uint32_t, uint64_t>> sent = {};  // rank and step of a lost worker that has sent it
  };
  // What a worker has begun last.
  struct Batch {
    uint32_t rank = 0;
    uint64_t step = 0, epoch = 0;
    std::vector<int64_t> records = {};
    bool is_sent = false;  // whether a slice has its gradient
  };
  struct GroupWait {
    std::vector<ProcessId> members = {};
    std::optional<Ms> idle_since = {};  // since when one of them takes no part anymore
  };
  struct Division {
    size_t workers = 0;  // who divide the records
    size_t known = 0;    // whose parts are known
  };
  struct Epoch {
    std::map<uint64_t, Division> divisions = {};
    bool has_ended = false;
    std::vector<Record> of_record = {};
  };

  void begins_rounds(Slice& slice, uint64_t round) {
    std::ranges::fill(slice.next, round);
    std::ranges::fill(slice.waits, std::nullopt);
    for (std::set<uint64_t>& taken : slice.taken) taken.erase(taken.lower_bound(round), taken.end());
    slice.groups.assign(slice.groups.size(), Group{.round = round, .adding = 0, .added = {}});
  }
  void require(Ms now, bool holds, const char* what) {
    if (!holds && broken_.empty()) broken_ = fmt::format("{} ms: {}", now, what);
  }
  void note(std::string_view path) { paths_[path]++; }
  // The records of the batch may be read again, or not.
  void unread(const Batch& batch) {
    Epoch& books = epochs_[batch.epoch];
    for (const int64_t record : batch.records) {
      Record& one = books.of_record[static_cast<size_t>(record)];
      one.is_read = false;
      if (batch.is_sent) one.sent = {batch.rank, batch.step};
    }
  }
  [[nodiscard]] bool is_seated(ProcessId process) const {
    return std::ranges::any_of(newest_.seats,
                               [&](const SeatSeen& seat) { return seat.is_live && seat.process == process; });
  }
  [[nodiscard]] uint64_t lead_in(const Slice& slice) const { return slice.is_statistic ? kNoBound : rules_.lead_max; }
  void leaves(uint32_t rank, uint32_t server) {
    const std::vector<uint32_t>& slices = rules_.slices_of[server];
    const uint64_t next = slices_[slices.front()].next[rank];
    for (const uint32_t s : slices) {
      Slice& slice = slices_[s];
      slice.waits[rank].reset();
      if (slice.is_statistic) continue;
      const Group& group = slice.groups[slice.group_of[rank]];
      if (slice.next[rank] != next) note("a step was torn by a loss");
      if (std::ranges::count(group.added, rank) > 0) note("a worker was lost with its gradient in an open round");
    }
  }
  void joins(const View& view, uint32_t rank, uint32_t server) {
    const uint64_t begin = view.seats[rank].begin;
    for (const uint32_t s : rules_.slices_of[server]) {
      Slice& slice = slices_[s];
      const uint64_t round = first_open_round(view, slice, rank);
      const Group& group = slice.groups[slice.group_of[rank]];
      if (!slice.is_statistic && round > begin) note("a worker joined a slice that was ahead of it");
      if (std::ranges::count(group.added, rank) > 0) note("a worker joined a round that has a gradient of its seat");
      slice.next[rank] = std::max(slice.next[rank], slice.is_statistic ? round : std::max(begin, round));
    }
  }
  [[nodiscard]] size_t server_of(size_t slice) const {
    const auto holds = [&](const std::vector<uint32_t>& slices) { return std::ranges::count(slices, slice) > 0; };
    return static_cast<size_t>(std::ranges::find_if(rules_.slices_of, holds) - rules_.slices_of.begin());
  }
  // The first round of the rank's group that is not over. Rounds that no live member begins are skipped.
  static uint64_t first_open_round(const View& view, const Slice& slice, uint32_t rank) {
    uint64_t first = kNoBound;
    for (uint32_t other = 0; other < view.seats.size(); other++) {
      const bool is_member = view.counts(other) && slice.group_of[other] == slice.group_of[rank];
      if (is_member) first = std::min(first, slice.next[other]);
    }
    const uint64_t round = slice.groups[slice.group_of[rank]].round;
    return first == kNoBound ? round : std::max(round, first);
  }

  void look_at_gone(Ms now) {
    for (const SeatSeen& seat : newest_.seats) {
      const auto gone = gone_.find(seat.process);
      if (!seat.is_live || gone == gone_.end() || ended_.count(seat.process) > 0) continue;
      require(now, now - gone->second <= rules_.detection_ms, "a process that is gone still counts as live");
    }
  }
  void look_at_slices(Ms now) {
    for (size_t s = 0; s < slices_.size(); s++) {
      Slice& slice = slices_[s];
      if (views_[server_of(s)].is_gone) continue;
      for (uint32_t rank = 0; rank < slice.waits.size(); rank++) {
        std::optional<Wait>& wait = slice.waits[rank];
        if (!wait) continue;
        if (is_for_somebody(slice, rank, wait->step)) {
          wait->idle_since.reset();
        } else if (!wait->idle_since) {
          wait->idle_since = now;
        } else {
          require(now, now - *wait->idle_since <= rules_.patience_ms, "a worker waits for nobody who takes part");
        }
      }
    }
  }
  void look_at_groups(Ms now) {
    for (auto& [process, wait] : group_waits_) {
      const bool is_idle =
          is_seated(process) && !std::ranges::all_of(wait.members, [&](ProcessId one) { return is_seated(one); });
      if (!is_idle) {
        wait.idle_since.reset();
      } else if (!wait.idle_since) {
        wait.idle_since = now;
      } else {
        require(now, now - *wait.idle_since <= rules_.group_ms, "a worker waits in a group for one that is gone");
      }
    }
  }
  [[nodiscard]] bool is_for_somebody(const Slice& slice, uint32_t rank, uint64_t step) const {
    if (!newest_.seats[rank].is_live) return true;  // nobody minds that this one waits
    for (uint32_t other = 0; other < slice.next.size(); other++) {
      if (!newest_.seats[other].is_live) continue;
      if (slice.group_of[other] == slice.group_of[rank] && slice.next[other] < step) return true;
      if (slice.next[other] + lead_in(slice) < step) return true;
    }
    return false;
  }
  void look_at_barrier(Ms now) {
    bool is_vacant = false;
    for (const auto& [rank, since] : vacant_) {
      const bool somebody_comes = newest_.seats[rank].process != 0;
      is_vacant = true;
      require(now, somebody_comes || now - since <= rules_.rejoin_ms + rules_.patience_ms,
              "the others stand still for longer than they may");
    }
    bool is_complete = !inside_.empty();
    for (uint32_t rank = 0; rank < newest_.seats.size(); rank++) {
      const SeatSeen& seat = newest_.seats[rank];
      if (seat.is_live && ended_.count(seat.process) == 0 && inside_.count(rank) == 0) is_complete = false;
    }
    const bool misses_server = std::ranges::any_of(views_, &View::is_gone);  // which has to know of newcomers
    if (!is_complete || misses_server || (rules_.stands_still && is_vacant)) return idle_since_.reset();
    if (!idle_since_) idle_since_ = now;
    // Workers that miss each other wait in the barrier for the timeout.
    const Ms patience = rules_.is_group ? rules_.group_ms : rules_.patience_ms;
    require(now, now - *idle_since_ <= patience, "workers wait in a barrier for nobody who takes part");
  }

  Rules rules_;
  std::string broken_;
  View newest_;              // the scheduler's
  std::vector<View> views_;  // by server
  std::vector<Slice> slices_;
  std::map<ProcessId, Ms> gone_;  // those that have died
  std::set<ProcessId> ended_;     // the workers whose end the scheduler knows
  std::set<ProcessId> lost_;      // the workers without which the job continued
  std::set<uint32_t> inside_;     // the ranks in the barrier
  std::optional<Ms> idle_since_;
  std::map<uint32_t, Ms> vacant_;
  std::map<uint64_t, Epoch> epochs_;
  std::map<ProcessId, Batch> last_;
  std::vector<Batch> history_;                                 // if the run may go back because of a server
  std::map<ProcessId, std::vector<Batch>> recent_;             // in a group
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> weights_;  // by group and step
  std::set<uint64_t> continued_;                               // the groups that have continued
  std::map<ProcessId, GroupWait> group_waits_;
  std::map<std::string_view, uint64_t> paths_;
};

}  // namespace dtrain::simulated
