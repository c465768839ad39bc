// `dtrain simulate`: one job in virtual time under each scheme (sync/simulator.h), and what a real server wrote,
// replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/inject.h"
#include "sync/simulator.h"
#include "sync/trace.h"

namespace dtrain::tools {

struct SimulateOptions {
  std::string scheme = "all";
  int64_t workers = 0;  // at the beginning; 0: as many as `speeds` has, or 4
  int64_t servers = 1;
  int64_t steps = 100;  // of an epoch: sync::Setting::steps
  int64_t num_epochs = 1;
  std::string speeds = {};  // "MSxCOUNT,..." in order of rank, or a file of such words; empty: 100 ms each
  double jitter = 0.05;
  double latency_ms = 0.1;
  double bandwidth = 10;      // Gbit/s of a host each way; 0: endless
  int64_t bytes = 102228128;  // of a step's gradients: ResNet-50's
  job::Inject inject = {};
  double leave_percent = 0;
  std::string join = {};  // "STEP:COUNT,..."
  uint64_t seed = 1;
  int64_t staleness = 0;                 // SSP
  std::string groups_file = {};          // GSP; empty: a group for each speed
  std::vector<sync::Group> groups = {};  // by worker, in its stead
  int64_t backup = 0;                    // not 0: BSP without and with so many backup workers
  // The model of learning: off while `loss` is 0.
  double loss = 0;
  std::string data_dir = {};  // empty: drawn pictures
  int64_t batch_size = 64;
  double lr = 0.1;  // of BSP and GSP; ASP and SSP take lr / workers
};

struct SchemeResult {
  std::string name;  // "bsp", "bsp backup 1", "ssp lead 3", "gsp 2 groups"
  sync::Outcome outcome;
  std::optional<double> reached_s;  // the loss, if there is a model of learning and it got there
  double last_loss = 0;             // of the model of learning

  [[nodiscard]] double staleness_mean() const;
  [[nodiscard]] uint64_t staleness_max() const;
};

struct SimulateResult {
  SimulateOptions options;
  std::vector<double> step_ms;  // by worker
  std::vector<SchemeResult> schemes;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // one line
  // "scheme,quantity,index,value" a line: index is the epoch, the staleness or the worker.
  [[nodiscard]] std::string csv() const;
  // False: a bug of the protocol, for somebody waited for ever.
  [[nodiscard]] bool all_finished() const;
};

// `progress` hears a line a scheme. Code::kUsage: numbers that do not go together, a groups file that does not fit;
// kNotFound, kData: of files.
Result<SimulateResult> simulate(const SimulateOptions& options, const std::function<void(std::string_view)>& progress);

// `out` gets the trace anew. Code::kNotFound, kData: sync::replay's.
Result<sync::Replay> replay_file(const std::string& path, const std::function<void(std::string_view)>& out);

}  // namespace dtrain::tools
