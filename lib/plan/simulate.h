// `dtrain simulate`: runs one job in virtual time under each scheme (simulator.h), or replays the event log of a real
// server.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/live.h"
#include "job/process/inject.h"
#include "plan/loss_model.h"
#include "plan/simulator.h"
#include "sync/event_log.h"

namespace dtrain::plan {

struct SimulateOptions {
  std::string scheme = "all";
  int64_t workers = 0;  // number of workers at the beginning; 0: as many as `speeds` lists, or 4 if it is empty
  int64_t servers = 1;
  int64_t steps = 100;  // steps of an epoch, counted as for Setting::steps
  int64_t num_epochs = 1;
  // "MSxCOUNT,..." in order of rank, or the path of a file with such items; empty: 100 ms for each worker
  std::string speeds = {};
  double jitter = 0.05;
  double latency_ms = 0.1;
  double bandwidth = 10;      // bandwidth of each host in each direction, in Gbit/s; 0: unlimited
  int64_t bytes = 102228128;  // size of a step's gradients; the default is that of ResNet-50
  job::Inject inject = {};
  double leave_percent = 0;
  std::string join = {};  // workers that join later: "STEP:COUNT,..."
  uint64_t seed = 1;
  int64_t staleness = 0;  // for SSP: how many steps a worker may be ahead
  // Path of the groups file, for GSP; empty: the workers with the same speed form a group.
  std::string groups_file = {};
  std::vector<sync::Group> groups = {};  // for GSP: the group of each worker; replaces groups_file if not empty
  int64_t backup = 0;  // if not 0: simulate BSP both without backup workers and with this number of them
  // The goal of the learning model (learning_model.h); 0: it is not used.
  double loss = 0;
  std::string data_dir = {};  // directory of the training set for the learning model; empty: synthetic images
  int64_t batch_size = 64;
  double lr = 0.1;  // learning rate for BSP and GSP; ASP and SSP use lr / workers
  // The mean number of hours between the losses of a process; 0: none is lost. If not 0, the simulation covers some
  // steps of an epoch (at most 100), and the loss model (loss_model.h) the whole job.
  double mtbf_hours = 0;
  std::string policy = "all";      // the policy with which the job meets the losses
  bool scheduler_returns = false;  // whether the loss of the scheduler is SchedulerLoss::kReturns, or else kRestart
  std::chrono::milliseconds replace_time{60000};       // LossSetting::replace_s
  std::chrono::milliseconds heartbeat_timeout{10000};  // LossSetting::detect_s
  std::chrono::milliseconds save_every{0};             // LossSetting::save_s
  int64_t snapshot_every = 0;  // number of updates between two snapshots of a server; 0: the servers take none
};

// What the losses cost under one policy: means over the jobs that finished, or over all if none did. The members have
// the meaning of those of LossCost.
struct PolicyResult {
  LossPolicy policy = LossPolicy::kWait;
  int64_t jobs = 0, finished = 0;  // number of jobs, which differ in their random numbers, and of those that finished
  double mean_s = 0, standing_s = 0, fewer_s = 0, repeated_s = 0, losses = 0, workers_at_end = 0;
  double updates_undone = 0;  // LossCost::undone_s, as the number of updates in that time
};

struct SchemeResult {
  std::string name;  // name of the scheme: "bsp", "bsp backup 1", "ssp lead 3", "gsp 2 groups"
  Outcome outcome;
  // The virtual time at which the loss was reached, in seconds; nullopt if it was not reached or there is no learning
  // model.
  std::optional<double> reached_s;
  double last_loss = 0;  // the last loss that the learning model measured
  double job_s = 0;      // duration of the whole job if no process is lost
  ServerLoss server_loss = ServerLoss::kRestart;
  std::vector<PolicyResult> policies = {};  // empty without mtbf_hours

  [[nodiscard]] double staleness_mean() const;
  [[nodiscard]] uint64_t staleness_max() const;
};

struct SimulateResult {
  SimulateOptions options;
  std::vector<double> step_ms;  // mean time of each worker's forward and backward pass, indexed by worker
  std::vector<SchemeResult> schemes;
  // The time that a server needs to write a snapshot: an estimate from SimulateOptions::bytes.
  double snapshot_write_s = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // the result as JSON, on one line
  // Lines "scheme,quantity,index,value", where index is the epoch, the staleness or the worker.
  [[nodiscard]] std::string csv() const;
  // False indicates a bug in the protocol: some worker waited forever.
  [[nodiscard]] bool all_finished() const;
};

// The functions that a simulation calls to report its progress.
struct SimulateProgress {
  // Receives one line for each scheme, as soon as the scheme is simulated.
  std::function<void(std::string_view line)> line;
  ShowLive live;  // displays the progress of the current scheme
};

// Code::kUsage if values do not fit together, or if the groups file does not fit; kNotFound and kData for errors of
// files.
Result<SimulateResult> simulate(const SimulateOptions& options, const SimulateProgress& progress);

// Replays an event log. `out` receives the lines of the event log that the replay itself writes. Code::kNotFound if
// there is no such file; other errors: see sync::replay.
Result<sync::Replay> replay_file(const std::string& path, const std::function<void(std::string_view)>& out);

}  // namespace dtrain::plan
