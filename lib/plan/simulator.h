// Simulates a job in virtual time: workers that compute, a network, and servers that each run the same Machine as a
// real server. A worker's step is a forward and a backward pass followed by an exchange: it sends its gradient to every
// server and gets new weights from every server. Everything random is drawn from a seed: how long a step takes (the
// same in every scheme), which workers crash and return, and which messages are late, lost or delivered twice.
//
// The cost depends only on the number of messages, not on virtual time; 10,000 workers are feasible.
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
  uint32_t servers = 1;  // each runs one machine and carries an equal share of every step's bytes
  // Steps per epoch. If the lead between workers is bounded (BSP, SSP, GSP with a bound), each worker makes this number
  // of steps. Otherwise (ASP, GSP without a bound, BSP with backup workers), all workers together make this number
  // times the number of workers present at the start.
  sync::Step steps = 100;
  sync::Step epochs = 1;             // at the end of each but the last, all workers meet and refresh their weights
  std::vector<double> step_ms = {};  // for each worker: mean time of a forward and backward pass
  double jitter = 0;                 // a step takes between (1 - jitter) and (1 + jitter) of its mean
  NetworkSetting network = {};
  NetworkFaults network_faults = {};
  double crash_share = 0;   // fraction of the workers that crash, each at a random time
  double return_share = 0;  // fraction of the crashed workers whose rank a new process takes over
  double detect_ms = 1000;  // time from a crash until the servers learn about it
  struct Kill {
    sync::Worker worker = 0;
    sync::Step step = 0;  // the worker crashes when it begins this step
  };
  std::vector<Kill> kills = {};
  struct Join {
    sync::Step step = 0;  // the workers join when the first worker begins this step
    uint32_t count = 0;   // number of workers that join; workers that join late have the last ranks of the policy
  };
  std::vector<Join> joins = {};  // sorted by step
};

// Receives the events of a simulation as they happen.
class Observer {
 public:
  virtual ~Observer() = default;
  // A server's machine has handled an event. `machine` is in the state after the event.
  virtual void on_event(double /*ms*/, uint32_t /*server*/, const sync::Machine& /*machine*/,
                        const sync::Event& /*event*/, std::span<const sync::Effect> /*effects*/) {}
  // The worker has received an answer that it was waiting for. `number` counts the Answers of all servers from 0.
  virtual void on_take(uint32_t /*server*/, sync::Worker /*worker*/, uint64_t /*number*/) {}
  // The worker starts computing a gradient with the weights that it received last.
  virtual void on_begin(double /*ms*/, sync::Worker /*worker*/, sync::Step /*step*/) {}
  // Something happened to a message or a process.
  enum class Incident { kRequestLost, kAnswerLost, kRequestAgain, kAnswerAgain, kOldProcess, kCrash, kJoin };
  virtual void on_incident(Incident /*incident*/, sync::Worker /*worker*/) {}
};

struct Outcome {
  bool all_finished = false;  // whether every worker that was live at the end has finished; false means a deadlock
  double seconds = 0;         // virtual time until the last worker had finished
  std::vector<double> epoch_s = {};             // duration of each epoch
  uint64_t events = 0;                          // events that the machines handled
  uint64_t gradients = 0;                       // gradients that were computed and sent
  uint64_t applied = 0;                         // gradients that server 0 applied
  uint64_t late = 0;                            // gradients that server 0 dropped as late, under backup workers
  uint64_t updates = 0;                         // updates of the weights on server 0
  std::map<uint64_t, uint64_t> staleness = {};  // maps the staleness of Applies on server 0 to their number
  uint64_t messages = 0, bytes = 0;             // totals that were sent, including lost messages
  struct WorkerTimes {
    sync::Step steps = 0;
    double computing_s = 0;
    // Time with a parked pull, or waiting for others at the end of an epoch: the cost of the scheme.
    double waiting_s = 0;
    double network_s = 0;  // remaining time of its exchanges
  };
  std::vector<WorkerTimes> workers = {};
};

// Equal settings and seeds give equal outcomes and equal calls of the observers. `step_ms` must be as long as the
// policy's `group_of`.
Outcome simulate(const Setting& setting, uint64_t seed, std::span<Observer* const> observers = {});

}  // namespace dtrain::plan
