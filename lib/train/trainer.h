// The training loop of one worker: epochs of steps, validation, checkpoints, the log. The same code runs alone and in a
// job; the store and the coordinator hide the differences.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "data/loading/loader.h"
#include "exec/device_group.h"
#include "graph/ids.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "telemetry/record.h"
#include "telemetry/tracer.h"
#include "train/checkpoint_claim.h"
#include "train/outcome.h"
#include "train/train_spec.h"
#include "train/validation.h"

namespace dtrain::train {

// How the records are divided among some workers, for one of them.
struct RecordDivision {
  EpochRule epoch;
  data::LoaderOptions training, validation;  // of which the share, share_in and the number of batches are used
  std::string job_text, job_hash;            // the JobSpec of a job of these workers, for checkpoints
};

// References and pointers are borrowed and must outlive the trainer.
struct TrainParts {
  const graph::Graph& graph;
  std::vector<InputForm> inputs;  // the same inputs with which `training` was compiled
  exec::DeviceGroup& training;
  std::vector<size_t> bucket_begin;  // index of each bucket's first parameter; the same as in `training`
  data::Loader& training_data;
  const data::Dataset* data = nullptr;  // the data that training_data reads; null: its stages are not reported
  // The executors that validate; each shares the weights of the corresponding executor of `training` (see
  // exec::Backend). If `inference` or validation_data is null, there is no validation.
  exec::DeviceGroup* inference = nullptr;
  data::Loader* validation_data = nullptr;
  // Called by the leader before it writes checkpoints. Null: nobody else writes them.
  TakeClaim take_claim = nullptr;
  // Divides the records among these workers, when others are gone. Null: the job does not continue without a worker.
  std::function<Result<RecordDivision>(const std::vector<uint32_t>& live)> divide = nullptr;
  ValidationWatch* validation_watch = nullptr;  // observes each validation; may be null
  kvstore::Store& store;
  job::Coordinator& coordinator;
  Waits& waits;                         // where the trainer lists work that takes long, such as validation
  Pacer* pacer = nullptr;               // paces the steps (--inject step-ms); null: as fast as possible
  FailPoints* fail_points = nullptr;    // are told of each step; null: are not
  telemetry::Tracer* tracer = nullptr;  // records the steps; null: no step is traced
  telemetry::Registry& registry;        // metrics of this process
  // Receive what the trainer reports, in addition to metrics.jsonl.
  std::vector<std::unique_ptr<telemetry::Sink>> sinks = {};
  Log log;                                       // the log of this worker, with its rank in the prefix
  AtomicFile::Fault checkpoint_fault = nullptr;  // for tests: called before system calls that write checkpoints
};

class Trainer {
 public:
  Trainer(TrainSpec spec, TrainParts parts);
  ~Trainer();

  // To be called once. Errors are those of the parts, and Code::kInternal for values that are not finite (--on-nan
  // fail). The metrics of the run (run_metrics.h) are up to date after it, even if it fails.
  Result<TrainOutcome> run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::train
