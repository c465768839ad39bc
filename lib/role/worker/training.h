// Builds the objects of a process that trains, in order. It serves both a process that trains alone and a worker of a
// job; each provides its own store and coordinator.
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
  const Process& process;    // the member `job` of the process's flags comes from the spec
  const job::JobSpec& spec;  // the complete JobSpec
  const job::JobPlan& plan;  // plan of the spec
  const Network& network;
  const data::DataSets& data;
  job::Coordinator& coordinator;  // coordinator of all workers
  Waits& waits;
  bool keeps_weights = true;     // whether weights of a resumed run are loaded, and weights are saved
  HostShare host{.workers = 1};  // the processes of the job that share the memory of this host
};

// Makes the store for executors that were compiled on `devices`. `setup` is valid during the call.
using MakeStore = std::function<Result<std::unique_ptr<kvstore::Store>>(const StoreSetup& setup, const Devices& devices,
                                                                        exec::DeviceGroup& executors)>;

// Borrows the same objects as the setup, all of which must outlive it.
class Training {
 public:
  // Compiles the executors, creates their store and starts the loaders. Code::kUsage if labels or shapes do not match.
  // Other errors are those of make_store.
  static Result<std::unique_ptr<Training>> build(const TrainingSetup& setup, const MakeStore& make_store);

  // Trains until the job ends. To be called once.
  Result<train::TrainOutcome> run();
  // Ends every wait of run(), which then returns the error. Any thread may call it.
  void cancel(const Error& error);
  [[nodiscard]] kvstore::Store& store() { return *store_; }

 private:
  Training(const TrainingSetup& setup, std::vector<size_t> bucket_begin, TrainingOptions options);
  [[nodiscard]] telemetry::Timeline* timeline() const { return &setup_.process.tracer->timeline(); }
  [[nodiscard]] exec::PlanSettings plan_files() const;
  Result<> compile();
  Result<> check_memory();
  Result<> make_store(const MakeStore& make_store);
  Result<std::unique_ptr<exec::DeviceGroup>> compile_with(exec::Options options);
  void open_loaders();
  Result<train::CheckpointClaim*> take_claim();
  Result<train::RecordDivision> divide(const std::vector<uint32_t>& live) const;
  void open_class_report();
  // The sinks of the trainer's records, in addition to metrics.jsonl.
  std::vector<std::unique_ptr<telemetry::Sink>> sinks();

  TrainingSetup setup_;
  std::unique_ptr<train::CheckpointClaim> claim_;  // null until this process writes checkpoints
  bool has_led_ = false;                           // whether take_claim() was called
  std::vector<size_t> bucket_begin_;
  TrainingOptions options_;
  Pacer pacer_;
  std::optional<Devices> devices_;
  telemetry::Registry::Handle gpu_use_;
  // Destroyed after the devices, which may still copy a batch that was announced to them.
  std::unique_ptr<data::Loader> training_data_, validation_data_;
  // The device groups for training and for validation. The weights of `inference_` are those of `training_`.
  std::unique_ptr<exec::DeviceGroup> training_, inference_;
  // The store is destroyed before the devices, because its threads use their memory.
  std::unique_ptr<kvstore::Store> store_;
  // Writes how images were classified; null if there is no validation or its results are not usable.
  std::unique_ptr<train::ClassReport> class_report_;
  std::unique_ptr<train::Trainer> trainer_;
};

}  // namespace dtrain::role
