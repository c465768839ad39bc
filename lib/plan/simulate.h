// `dtrain simulate`: runs one job in virtual time under each scheme (simulator.h), or replays an event log that a real
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
#include "sync/event_log.h"

namespace dtrain::plan {

struct SimulateOptions {
  std::string scheme = "all";
  int64_t workers = 0;  // number of workers at the beginning; 0: as many as `speeds` lists, or 4
  int64_t servers = 1;
  int64_t steps = 100;  // per epoch (Setting::steps)
  int64_t num_epochs = 1;
  std::string speeds = {};  // "MSxCOUNT,..." in order of rank, or a file of such items; empty: 100 ms per worker
  double jitter = 0.05;
  double latency_ms = 0.1;
  double bandwidth = 10;      // Gbit/s of a host in each direction; 0: unlimited
  int64_t bytes = 102228128;  // size of a step's gradients; the default is that of ResNet-50
  job::Inject inject = {};
  double leave_percent = 0;
  std::string join = {};  // "STEP:COUNT,..."
  uint64_t seed = 1;
  int64_t staleness = 0;                 // for SSP
  std::string groups_file = {};          // for GSP; empty: one group per speed
  std::vector<sync::Group> groups = {};  // for GSP: the group of each worker; replaces groups_file if not empty
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
  // When the loss was reached; nullopt if it was not reached or there is no learning model.
  std::optional<double> reached_s;
  double last_loss = 0;  // last loss of the learning model

  [[nodiscard]] double staleness_mean() const;
  [[nodiscard]] uint64_t staleness_max() const;
};

struct SimulateResult {
  SimulateOptions options;
  std::vector<double> step_ms;  // indexed by worker
  std::vector<SchemeResult> schemes;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // one line
  // Lines "scheme,quantity,index,value", where index is the epoch, the staleness or the worker.
  [[nodiscard]] std::string csv() const;
  // False indicates a bug of the protocol: some worker waited forever.
  [[nodiscard]] bool all_finished() const;
};

// How a simulation reports its progress.
struct SimulateProgress {
  std::function<void(std::string_view line)> line;  // one line per scheme, when it is done
  ShowLive live;                                    // progress of the current scheme
};

// Code::kUsage if values or a groups file do not fit together; kNotFound and kData for errors of files.
Result<SimulateResult> simulate(const SimulateOptions& options, const SimulateProgress& progress);

// Replays an event log; `out` receives the lines of the event log that the replay writes. Code::kNotFound if there is
// no file; other errors: see sync::replay.
Result<sync::Replay> replay_file(const std::string& path, const std::function<void(std::string_view)>& out);

}  // namespace dtrain::plan
