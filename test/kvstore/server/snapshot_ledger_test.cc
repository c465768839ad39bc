// Tests which snapshots are written, kept and waited for. The main test drives the slices of several servers by the
// real state machines, with disks of any speed.
#include "kvstore/server/snapshot_ledger.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/random.h"
#include "support/catch.h"
#include "sync/machine.h"

namespace dtrain::kvstore {
namespace {

using Numbers = std::vector<uint64_t>;

SnapshotPart part_of(uint32_t slice, uint64_t version) {
  return {.id = {0, slice}, .counters = {.updates = version}};
}

struct SimulatedJob {
  sync::Policy policy;
  uint64_t every = 1;
  uint32_t servers = 2;
  uint32_t slices = 2;  // of each server
  uint32_t losses = 0;  // workers that are lost
  uint64_t steps = 60;  // of each worker
  uint64_t kept = 0;    // 0: snapshots_kept()
};

struct Outcome {
  bool ends = false;        // false: all wait for each other
  bool has_common = true;   // from when every server has a snapshot, they always have one in common
  uint64_t held = 0;        // answers that waited for a snapshot
  uint64_t spread_max = 0;  // largest difference between the newest snapshots of two servers
};

// Workers push each step to all slices and begin the next one when all slices have answered. Messages take any time,
// and so does each write.
class Simulation {
 public:
  Simulation(const SimulatedJob& job, uint64_t seed) : job_(job), random_(seed, Use::kTest), losses_(job.losses) {
    const size_t kept = job.kept > 0 ? job.kept : snapshots_kept(job.policy, job.every);
    for (uint32_t s = 0; s < job.servers; s++) {
      servers_.push_back({.ledger = SnapshotLedger(job.every, job.slices, kept, {}),
                          .slices = {},
                          .is_writing = false,
                          .slowness = kSlowness[random_.below(std::size(kSlowness))]});
      for (uint32_t i = 0; i < job.slices; i++) {
        servers_[s].slices.push_back({.machine = sync::Machine(job.policy),
                                      .outbox = {},
                                      .kept = Numbers(sync::group_count(job.policy), 0),
                                      .version = 0});
        servers_[s].ledger.take(part_of(i, 0));
      }
    }
    for (uint32_t w = 0; w < job.policy.group_of.size(); w++) {
      workers_.push_back({});
      push_step(w);
    }
  }

  Outcome run() {
    while (!is_over()) {
      if (!make_event()) return outcome_;
      check();
    }
    outcome_.ends = true;
    return outcome_;
  }

 private:
  static constexpr int64_t kSlowness[] = {1, 1, 30, 1000};
  struct Held {
    uint32_t worker = 0;
    uint64_t version = 0;
  };
  struct SliceState {
    sync::Machine machine;
    std::vector<Held> outbox;  // in order
    Numbers kept;              // the version of each group's weights
    uint64_t version = 0;
  };
  struct Server {
    SnapshotLedger ledger;
    std::vector<SliceState> slices;
    bool is_writing = false;
    int64_t slowness = 1;  // of so many times that the write could end, it ends once
  };
  struct WorkerState {
    uint64_t step = 0;
    uint32_t missing = 0;  // slices that have not answered
    bool is_live = true;
  };
  struct Flight {
    uint32_t worker = 0, server = 0, slice = 0;
    uint64_t step = 0;
  };

  [[nodiscard]] bool is_over() const {
    return std::ranges::all_of(workers_, [&](const WorkerState& w) { return !w.is_live || w.step >= job_.steps; });
  }

  void push_step(uint32_t worker) {
    workers_[worker].missing = job_.servers * job_.slices;
    for (uint32_t s = 0; s < job_.servers; s++) {
      for (uint32_t i = 0; i < job_.slices; i++) flights_.push_back({worker, s, i, workers_[worker].step});
    }
  }

  // Makes one of the events that are possible. Returns false if there is none.
  bool make_event() {
    if (losses_ > 0 && below(200) == 0) lose_worker();
    std::vector<Server*> writing, complete;
    std::vector<SliceState*> answering;
    for (Server& server : servers_) {
      if (server.ledger.has_complete()) complete.push_back(&server);
      if (server.is_writing) writing.push_back(&server);
      for (SliceState& slice : server.slices) {
        if (slice.outbox.empty()) continue;
        const bool is_free = slice.outbox.front().version < server.ledger.limit();
        if (is_free) answering.push_back(&slice);
        if (!is_free) outcome_.held++;
      }
    }
    const size_t flights = flights_.size(), answers = answering.size(), quick = flights + answers + complete.size();
    if (quick + writing.size() == 0) return false;
    const size_t choice = below(quick + writing.size());
    if (choice < flights) {
      deliver(choice);
    } else if (choice < flights + answers) {
      answer(*answering[choice - flights]);
    } else if (choice < quick) {
      begin_write(*complete[choice - flights - answers]);
    } else {
      Server& server = *writing[choice - quick];
      if (quick == 0 || random_.below(server.slowness) == 0) end_write(server);
    }
    return true;
  }
  size_t below(size_t count) { return static_cast<size_t>(random_.below(static_cast<int64_t>(count))); }

  static void begin_write(Server& server) { server.is_writing = server.ledger.begin_write().has_value(); }
  static void end_write(Server& server) {
    server.ledger.end_write(true);
    server.is_writing = false;
  }

  void deliver(size_t f) {
    const Flight flight = flights_[f];
    flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(f));
    SliceState& slice = servers_[flight.server].slices[flight.slice];
    feed(flight, slice, sync::Push{flight.worker, flight.step});
    feed(flight, slice, sync::Pull{flight.worker, flight.step + 1});
  }

  void feed(const Flight& at, SliceState& slice, const sync::Event& event) {
    std::vector<sync::Effect> effects;
    slice.machine.on(event, effects);
    for (const sync::Effect& effect : effects) {
      if (std::holds_alternative<sync::Apply>(effect)) {
        slice.version++;
        if (slice.version % job_.every == 0) servers_[at.server].ledger.take(part_of(at.slice, slice.version));
      } else if (const auto* keep = std::get_if<sync::Keep>(&effect)) {
        slice.kept[keep->group] = slice.version;
      } else if (const auto* answer = std::get_if<sync::Answer>(&effect)) {
        slice.outbox.push_back({answer->worker, slice.kept[answer->group]});
      }
    }
  }

  void answer(SliceState& slice) {
    const uint32_t worker = slice.outbox.front().worker;
    slice.outbox.erase(slice.outbox.begin());
    WorkerState& state = workers_[worker];
    if (!state.is_live || --state.missing > 0) return;
    state.step++;
    if (state.step < job_.steps)
      push_step(worker);
    else
      leave(worker);
  }

  // Some of its gradients arrive nowhere.
  void lose_worker() {
    const auto worker = static_cast<uint32_t>(random_.below(static_cast<int64_t>(workers_.size())));
    const auto is_live = [](const WorkerState& w) { return w.is_live; };
    if (!workers_[worker].is_live || std::ranges::count_if(workers_, is_live) < 2) return;
    losses_--;
    workers_[worker].is_live = false;
    std::erase_if(flights_, [&](const Flight& flight) { return flight.worker == worker; });
    leave(worker);
  }
  void leave(uint32_t worker) {
    for (uint32_t s = 0; s < job_.servers; s++) {
      for (uint32_t i = 0; i < job_.slices; i++) {
        feed({worker, s, i, 0}, servers_[s].slices[i], sync::Leave{worker});
      }
    }
  }

  void check() {
    Numbers common = servers_[0].ledger.durable();
    uint64_t least = UINT64_MAX, largest = 0;
    for (const Server& server : servers_) {
      const Numbers& durable = server.ledger.durable();
      if (durable.empty()) return;
      least = std::min(least, durable.back());
      largest = std::max(largest, durable.back());
      Numbers both;
      std::ranges::set_intersection(common, durable, std::back_inserter(both));
      common = both;
    }
    outcome_.has_common = outcome_.has_common && !common.empty();
    outcome_.spread_max = std::max(outcome_.spread_max, largest - least);
  }

  const SimulatedJob& job_;
  RandomStream random_;
  uint32_t losses_;
  std::vector<Server> servers_;
  std::vector<WorkerState> workers_;
  std::vector<Flight> flights_;
  Outcome outcome_;
};

constexpr int kSeeds = 30;

// The number of seeds after which no snapshot was common at some time.
int seeds_without_common(const SimulatedJob& job, int seeds, Outcome* sum = nullptr) {
  int without = 0;
  for (int seed = 1; seed <= seeds; seed++) {
    INFO("seed " << seed);
    const Outcome outcome = Simulation(job, static_cast<uint64_t>(seed)).run();
    REQUIRE(outcome.ends);
    if (!outcome.has_common) without++;
    if (sum == nullptr) continue;
    sum->held += outcome.held;
    sum->spread_max = std::max(sum->spread_max, outcome.spread_max);
  }
  return without;
}

}  // namespace

TEST_CASE("servers always have a snapshot in common, however fast or slow their disks are", "[kvstore][snapshots]") {
  const auto [name, job, spread] = GENERATE(table<std::string, SimulatedJob, uint64_t>({
      {"bsp", {.policy = sync::bsp(3), .every = 4}, 2},
      {"bsp, a snapshot after each step", {.policy = sync::bsp(2), .every = 1, .servers = 3}, 2},
      {"bsp with a backup worker", {.policy = sync::bsp(4, 1), .every = 2}, 2},
      {"bsp with losses", {.policy = sync::bsp(5), .every = 3, .losses = 3}, 2},
      {"asp", {.policy = sync::asp(4), .every = 6}, 2},
      {"asp, many workers", {.policy = sync::asp(8), .every = 3}, 4},
      {"asp with losses", {.policy = sync::asp(6), .every = 4, .losses = 4}, 3},
      {"ssp", {.policy = sync::ssp(4, 2), .every = 5}, 2},
      {"gsp", {.policy = sync::gsp({0, 0, 1, 1}), .every = 3}, 2},
  }));
  INFO(name);
  Outcome sum;
  CHECK(seeds_without_common(job, kSeeds, &sum) == 0);
  CHECK(sum.held > 0);
  CHECK(sum.spread_max >= spread);  // so far apart that fewer kept snapshots would not do
}

TEST_CASE("with fewer kept snapshots, servers would have none in common", "[kvstore][snapshots]") {
  CHECK(seeds_without_common({.policy = sync::bsp(3), .every = 4, .kept = 2}, kSeeds) > 0);
  CHECK(seeds_without_common({.policy = sync::asp(8), .every = 3, .kept = 3}, kSeeds) > 0);
}

TEST_CASE("the number of kept snapshots grows with the workers that do not wait for each other",
          "[kvstore][snapshots]") {
  CHECK(snapshots_kept(sync::bsp(1000), 1) == 3);
  CHECK(snapshots_kept(sync::bsp(8, 2), 1) == 3);
  CHECK(snapshots_kept(sync::asp(8), 100) == 4);
  CHECK(snapshots_kept(sync::asp(8), 3) == 6);
  CHECK(snapshots_kept(sync::gsp({0, 0}), 1) == 5);  // the groups may change
}

TEST_CASE("weights wait for the snapshot before the last one", "[kvstore][snapshots]") {
  SnapshotLedger ledger(10, 2, 3, {});
  CHECK(ledger.limit() == SnapshotLedger::kNoLimit);
  ledger.take(part_of(0, 30));
  CHECK_FALSE(ledger.has_complete());
  CHECK(ledger.limit() == SnapshotLedger::kNoLimit);  // a slice may be far behind, and must not wait for itself
  ledger.take(part_of(1, 30));
  CHECK(ledger.limit() == 40);
  const auto complete = ledger.begin_write();
  REQUIRE(complete);
  CHECK(complete->number == 3);
  CHECK(complete->parts.size() == 2);
  for (uint32_t slice = 0; slice < 2; slice++) ledger.take(part_of(slice, 40));
  CHECK(ledger.limit() == 40);
  CHECK_FALSE(ledger.has_complete());  // one is written at a time
  CHECK(ledger.end_write(true));
  CHECK(ledger.limit() == 50);
  CHECK(ledger.begin_write()->number == 4);
  CHECK_FALSE(ledger.end_write(false));
  CHECK(ledger.limit() == SnapshotLedger::kNoLimit);
  CHECK(ledger.durable() == Numbers{3});
}

TEST_CASE("the newest snapshots are kept", "[kvstore][snapshots]") {
  SnapshotLedger ledger(1, 1, 3, {5, 7});
  for (const uint64_t number : {8, 9, 10}) {
    ledger.take(part_of(0, number));
    REQUIRE(ledger.begin_write());
    CHECK(ledger.end_write(number != 9) == (number != 9));
  }
  CHECK(ledger.durable() == Numbers{7, 8, 10});
  CHECK(ledger.take_outdated() == Numbers{5});
  CHECK_FALSE(ledger.has_outdated());
}

TEST_CASE("after a return to a snapshot, nothing later is left", "[kvstore][snapshots]") {
  SnapshotLedger ledger(10, 2, 3, {1, 2, 3});
  for (const uint64_t version : {40, 50}) {
    for (uint32_t slice = 0; slice < 2; slice++) ledger.take(part_of(slice, version));
  }
  ledger.take(part_of(0, 60));
  REQUIRE(ledger.begin_write()->number == 4);
  ledger.go_back(2);
  CHECK(ledger.is_abandoned());
  CHECK(ledger.durable() == Numbers{1, 2});
  CHECK(ledger.take_outdated() == Numbers{3});
  CHECK(ledger.limit() == SnapshotLedger::kNoLimit);
  ledger.take(part_of(0, 30));
  CHECK_FALSE(ledger.end_write(true));
  CHECK(ledger.take_outdated() == Numbers{4});  // it was complete before it was known to be invalid
  ledger.take(part_of(1, 30));
  CHECK(ledger.begin_write()->number == 3);
  CHECK(ledger.end_write(true));
  CHECK(ledger.durable() == Numbers{1, 2, 3});
}

TEST_CASE("values that a worker assigns replace the snapshots of their version and later", "[kvstore][snapshots]") {
  const uint64_t version = GENERATE(20, 25);
  SnapshotLedger ledger(10, 2, 5, {1, 2, 3});
  for (const uint64_t taken : {40, 50}) {
    for (uint32_t slice = 0; slice < 2; slice++) ledger.take(part_of(slice, taken));
  }
  REQUIRE(ledger.begin_write()->number == 4);
  for (uint32_t slice = 0; slice < 2; slice++) {
    ledger.begin_at(version);
    if (version == 20) ledger.take(part_of(slice, version));
  }
  CHECK(ledger.is_abandoned());
  CHECK(ledger.durable() == (version == 20 ? Numbers{1} : Numbers{1, 2}));
  CHECK(ledger.take_outdated() == (version == 20 ? Numbers{2, 3} : Numbers{3}));
  CHECK_FALSE(ledger.end_write(false));
  const auto next = ledger.begin_write();
  REQUIRE(next.has_value() == (version == 20));
  if (next) CHECK(next->number == 2);
}

}  // namespace dtrain::kvstore
