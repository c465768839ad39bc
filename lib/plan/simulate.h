// `dtrain simulate`: runs one job in virtual time under each scheme (simulator.h), or replays a trace that a real
// server wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/live.h"
#include "job/process/inject.h"
#include "plan/simulator.h"
#include "sync/trace.h"

namespace dtrain::plan {

struct SimulateOptions {
  std::string scheme = "all";
  int64_t workers = 0;  // at the beginning; 0: as many as `speeds` lists, or 4
  int64_t servers = 1;
  int64_t steps = 100;  // per epoch (Setting::steps)
  int64_t num_epochs = 1;
  std::string speeds = {};  // "MSxCOUNT,..." in order of rank, or a file of such words; empty: 100 ms per worker
  double jitter = 0.05;
  double latency_ms = 0.1;
  double bandwidth = 10;      // Gbit/s of a host in each direction; 0: unlimited
  int64_t bytes = 102228128;  // of the gradients of a step; the default is ResNet-50's
  job::Inject inject = {};
  double leave_percent = 0;
  std::string join = {};  // "STEP:COUNT,..."
  uint64_t seed = 1;
  int64_t staleness = 0;                 // SSP
  std::string groups_file = {};          // GSP; empty: one group per speed
  std::vector<sync::Group> groups = {};  // GSP: the group of each worker; replaces groups_file if not empty
  int64_t backup = 0;                    // not 0: simulate BSP without and with this many backup workers
  // The learning model (learning_model.h); off while `loss` is 0.
  double loss = 0;
  std::string data_dir = {};  // empty: synthetic images
  int64_t batch_size = 64;
  double lr = 0.1;  // for BSP and GSP; ASP and SSP use lr / workers
};

struct SchemeResult {
  std::string name;  // "bsp", "bsp backup 1", "ssp lead 3", "gsp 2 groups"
  Outcome outcome;
  std::optional<double> reached_s;  // when the loss was reached; nullopt: not reached, or no learning model
  double last_loss = 0;             // of the learning model

  [[nodiscard]] double staleness_mean() const;
  [[nodiscard]] uint64_t staleness_max() const;
};

struct SimulateResult {
  SimulateOptions options;
  std::vector<double> step_ms;  // by worker
  std::vector<SchemeResult> schemes;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // one line
  // Lines "scheme,quantity,index,value", where index is the epoch, the staleness or the worker.
  [[nodiscard]] std::string csv() const;
  // False means a bug of the protocol: some worker waited forever.
  [[nodiscard]] bool all_finished() const;
};

// Where a simulation tells how far it is.
struct SimulateProgress {
  std::function<void(std::string_view line)> line;  // one per scheme, when it is done
  ShowLive live;                                    // how far a scheme is
};

// Code::kUsage: values that do not fit together, or a groups file that does
// not fit; kNotFound, kData: errors of files.
Result<SimulateResult> simulate(const SimulateOptions& options, const SimulateProgress& progress);

// Replays a trace; `out` gets the lines of the trace that the replay writes. Code::kNotFound, kData: as of
// sync::replay.
Result<sync::Replay> replay_file(const std::string& path, const std::function<void(std::string_view)>& out);

}  // namespace dtrain::plan
