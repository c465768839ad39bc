// Builds the objects of a process that trains, in order. It serves both a process alone and a worker of a job; each
// brings its own store and coordinator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "data/loading/loader.h"
#include "data/loading/open.h"
#include "exec/device_group.h"
#include "job/process/coordinator.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "kvstore/store.h"
#include "role/process/process.h"
#include "role/setup/devices.h"
#include "role/setup/memory_need.h"
#include "role/setup/network.h"
#include "role/worker/stores.h"
#include "role/worker/training_options.h"
#include "telemetry/gpu_use.h"
#include "train/class_tally.h"
#include "train/trainer.h"

namespace dtrain::role {

struct TrainingSetup {
  const Process& process;    // the part `job` of its flags is that of the spec
  const job::JobSpec& spec;  // complete
  const job::JobPlan& plan;  // of the spec
  const Network& network;
  const data::DataSets& data;
  job::Coordinator& coordinator;  // of all workers
  Waits& waits;
  bool keeps_weights = true;     // false: starts from the initial weights even if a run is resumed, and saves none
  HostShare host{.workers = 1};  // the processes of the job that share the memory of this host
};

// Makes the store for executors that were compiled on `devices`. `setup` is valid during the call.
using MakeStore = std::function<Result<std::unique_ptr<kvstore::Store>>(const StoreSetup& setup, const Devices& devices,
                                                                        exec::DeviceGroup& executors)>;

// Borrows what the setup borrows, all of which must outlive it.
class Training {
 public:
  // Compiles the executors, makes their store and starts the loaders. Code::kUsage: labels or shapes do not match. Also
  // fails as make_store does.
  static Result<std::unique_ptr<Training>> build(const TrainingSetup& setup, const MakeStore& make_store);

  // Trains to the end of the job. Called once.
  Result<train::TrainOutcome> run();
  // Ends what run() waits for; it returns the error. Any thread.
  void cancel(const Error& error);

 private:
  Training(const TrainingSetup& setup, std::vector<size_t> bucket_begin, TrainingOptions options);
  [[nodiscard]] telemetry::Timeline* timeline() const { return &setup_.process.tracer->timeline(); }
  Result<> compile();
  Result<> check_memory();
  Result<> make_store(const MakeStore& make_store);
  Result<std::unique_ptr<exec::DeviceGroup>> compile_with(exec::Options options);
  void open_loaders();
  void open_class_report();
  // What shows the trainer's records besides metrics.jsonl.
  std::vector<std::unique_ptr<telemetry::Sink>> sinks();

  TrainingSetup setup_;
  std::vector<size_t> bucket_begin_;
  TrainingOptions options_;
  Pacer pacer_;
  std::optional<Devices> devices_;
  telemetry::Registry::Handle gpu_use_;
  std::unique_ptr<exec::DeviceGroup> training_, inference_;  // inference uses the memory of training
  std::unique_ptr<kvstore::Store> store_;  // destroyed before the devices, whose memory its threads use
  std::unique_ptr<data::Loader> training_data_, validation_data_;
  std::unique_ptr<train::ClassReport> class_report_;  // null: no validation, or its results are of no use
  std::unique_ptr<train::Trainer> trainer_;
};

}  // namespace dtrain::role
