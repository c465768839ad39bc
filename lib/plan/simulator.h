// Simulates a job in virtual time: workers that compute, a network, and servers that each run the same sync::Machine as
// a real server. A worker's step is a forward and a backward pass followed by an exchange, in which the worker sends
// its gradient to every server and receives new weights from every server. All random values are derived from a seed:
// how long each step takes (the same in every scheme), which workers crash and return, and which messages are late,
// lost or delivered twice.
//
// The run time depends on the number of messages, not on the virtual time. 10,000 workers are feasible.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/virtual_network.h"
#include "sync/machine.h"

namespace dtrain::plan {

struct Setting {
  sync::Policy policy = {};
  // Number of servers; each runs a sync::Machine and transfers an equal share of the bytes of every step.
  uint32_t servers = 1;
  // Steps per epoch. If the lead between workers is bounded (BSP, SSP, GSP with a bound), each worker makes this number
  // of steps. Otherwise (ASP, GSP without a bound, BSP with backup workers), all workers together make this number
  // times the number of workers present at the start.
  sync::Step steps = 100;
  // At the end of each epoch but the last, all workers wait for each other and refresh their weights.
  sync::Step epochs = 1;
  std::vector<double> step_ms = {};  // for each worker: the mean time of a forward and backward pass
  double jitter = 0;                 // each step takes between (1 - jitter) and (1 + jitter) times this mean
  NetworkSetting network = {};
  NetworkFaults network_faults = {};
  double crash_share = 0;   // fraction of the workers that crash, each at a random time
  double return_share = 0;  // fraction of the crashed workers that return: a new process takes over the rank
  double detect_ms = 1000;  // time from a crash until the servers learn of it
  struct Kill {
    sync::Worker worker = 0;
    sync::Step step = 0;  // the worker crashes when it begins this step
  };
  std::vector<Kill> kills = {};
  struct Join {
    sync::Step step = 0;  // the workers join when the first worker begins this step
    uint32_t count = 0;   // number of workers that join; they have the last ranks of the policy
  };
  std::vector<Join> joins = {};  // the joins, sorted by step
};

// Receives the events of a simulation as they happen.
class Observer {
 public:
  virtual ~Observer() = default;
  // Called when a server's machine has handled an event; `machine` is in the state after the event.
  virtual void on_event(double /*ms*/, uint32_t /*server*/, const sync::Machine& /*machine*/,
                        const sync::Event& /*event*/, std::span<const sync::Effect> /*effects*/) {}
  // Called when a worker has received an answer that it was waiting for. `number`: the Answers of all servers are
  // numbered from 0.
  virtual void on_take(uint32_t /*server*/, sync::Worker /*worker*/, uint64_t /*number*/) {}
  // Called when a worker starts to compute a gradient at the weights that it received last.
  virtual void on_begin(double /*ms*/, sync::Worker /*worker*/, sync::Step /*step*/) {}
  // Called when something unusual happens to a message or a process.
  enum class Incident { kRequestLost, kAnswerLost, kRequestAgain, kAnswerAgain, kOldProcess, kCrash, kJoin };
  virtual void on_incident(Incident /*incident*/, sync::Worker /*worker*/) {}
};

struct Outcome {
  // Whether all workers that were live at the end have finished; if not, there was a deadlock.
  bool all_finished = false;
  double seconds = 0;                // virtual time until the last worker finished
  std::vector<double> epoch_s = {};  // duration of each epoch
  uint64_t events = 0;               // events that the machines handled
  uint64_t gradients = 0;            // gradients that were computed and sent
  uint64_t applied = 0;              // gradients that server 0 applied
  uint64_t late = 0;     // gradients that server 0 dropped because they were late (only with backup workers)
  uint64_t updates = 0;  // updates of the weights on server 0
  std::map<uint64_t, uint64_t> staleness = {};  // for each staleness, the number of Applies on server 0 that had it
  uint64_t messages = 0, bytes = 0;             // totals of everything that was sent, including lost messages
  struct WorkerTimes {
    sync::Step steps = 0;
    double computing_s = 0;
    // Time in which the worker's pull was parked, or in which it waited for other workers at the end of an epoch: what
    // the scheme costs.
    double waiting_s = 0;
    double network_s = 0;  // the rest of the time of its exchanges
  };
  std::vector<WorkerTimes> workers = {};

  [[nodiscard]] double updates_per_s() const;  // on server 0, in virtual time
};

// Equal settings and seeds produce equal outcomes and the same calls of the observers. `step_ms` must have the same
// length as the policy's `group_of`.
Outcome simulate(const Setting& setting, uint64_t seed, std::span<Observer* const> observers = {});

}  // namespace dtrain::plan
