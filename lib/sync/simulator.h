// A job in virtual time: workers that compute, a network, and servers, each with the very Machine that decides in a
// real one. A worker's step is a forward and backward pass, then an exchange: its gradient to every server, new weights
// from every server. All that is random is drawn from a seed: how long a step takes (the same in every scheme), who
// crashes and comes back, which message is late, lost or delivered twice.
//
// What it costs does not depend on virtual time, only on the number of messages: 10,000 workers are fine.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sync/machine.h"
#include "sync/virtual_network.h"

namespace dtrain::sync {

struct Setting {
  Policy policy = {};
  uint32_t servers = 1;  // each has a part of every step's bytes, and a machine
  // Of an epoch. With a bound between workers (BSP, SSP, GSP with one) each worker does so many; without (ASP, GSP,
  // backup) all together do so many times the number of workers that are there at the beginning.
  Step steps = 100;
  Step epochs = 1;                   // between them all workers meet and refresh
  std::vector<double> step_ms = {};  // by worker: mean time of forward and backward
  double jitter = 0;                 // a step takes from (1 - jitter) to (1 + jitter) of its mean
  NetworkSetting network = {};
  Weather weather = {};
  double crash_share = 0;   // of the workers; each at a drawn moment
  double return_share = 0;  // of those that crashed: another process takes the rank over
  double detect_ms = 1000;  // from a crash until the servers hear of it
  struct Kill {
    Worker worker = 0;
    Step step = 0;  // when it begins this one
  };
  std::vector<Kill> kills = {};
  struct Join {
    Step step = 0;       // when the first worker begins this one
    uint32_t count = 0;  // so many more take part; they are the last ranks of the policy
  };
  std::vector<Join> joins = {};  // in order of step
};

// What a simulation tells to whom it was given, as it happens.
class Observer {
 public:
  virtual ~Observer() = default;
  // A server's machine has had an event; it is as the event left it.
  virtual void on_event(double /*ms*/, uint32_t /*server*/, const Machine& /*machine*/, const Event& /*event*/,
                        std::span<const Effect> /*effects*/) {}
  // The worker has got an answer of the server that it waited for: the `number`-th Answer of all servers, from 0.
  virtual void on_take(uint32_t /*server*/, Worker /*worker*/, uint64_t /*number*/) {}
  // The worker computes a gradient with what it took last.
  virtual void on_begin(double /*ms*/, Worker /*worker*/, Step /*step*/) {}
  // What happens to messages and processes.
  enum class Incident { kRequestLost, kAnswerLost, kRequestAgain, kAnswerAgain, kOldProcess, kCrash, kJoin };
  virtual void on_incident(Incident /*incident*/, Worker /*worker*/) {}
};

struct Outcome {
  bool all_finished = false;         // whoever was not dead at the end has done its part; else somebody waits for ever
  double seconds = 0;                // virtual, until the last one had finished
  std::vector<double> epoch_s = {};  // of each
  uint64_t events = 0;               // that the machines had
  uint64_t gradients = 0;            // that were computed and sent
  uint64_t applied = 0;              // of them, by server 0
  uint64_t late = 0;                 // of them, lost to backup workers' rule on server 0
  uint64_t updates = 0;              // of the weights on server 0
  std::map<uint64_t, uint64_t> staleness = {};  // of an Apply -> how often, on server 0
  uint64_t messages = 0, bytes = 0;             // sent, those that were lost included
  struct WorkerTimes {
    Step steps = 0;
    double computing_s = 0;
    double waiting_s = 0;  // its pull was parked, or it had stopped and others had not: the scheme's share
    double network_s = 0;  // the rest of its exchanges
  };
  std::vector<WorkerTimes> workers = {};
};

// Equal settings and seeds give equal outcomes, and the observers see the same. `step_ms` is as long as the policy's
// `group_of`.
Outcome simulate(const Setting& setting, uint64_t seed, std::span<Observer* const> observers = {});

}  // namespace dtrain::sync
