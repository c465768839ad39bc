// The options with which a worker's training is built, made from the flags, the JobSpec and the data. Opens no files or
// devices, so tests can trace each flag to the options that it sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/loading/loader.h"
#include "data/loading/open.h"
#include "exec/executor.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "role/process/resume.h"
#include "role/setup/network.h"
#include "train/train_spec.h"

namespace dtrain::role {

// All members except `rank` and `keeps_weights` refer to objects that must outlive the call.
struct TrainingInput {
  const job::Flags& flags;   // the flags of this process, of which the member `job` comes from the spec
  const job::JobSpec& spec;  // the complete JobSpec
  const job::JobPlan& plan;  // plan of the spec
  const Network& network;
  const data::DataSets& data;
  const std::vector<size_t>& bucket_begin;
  const std::string& run_dir;
  const std::optional<Resumed>& resumed;
  uint32_t rank = 0;
  // False: the run starts from the initial weights even if a run is resumed, and saves no weights.
  bool keeps_weights = true;
};

struct TrainingOptions {
  train::TrainSpec trainer;             // complete except for `pretrained`, which requires reading files
  std::vector<int64_t> device_batches;  // each device's part of the batch
  exec::Options training, inference;    // options of the executors; `batch_size` in them is the total over all devices
  data::LoaderOptions training_data;
  data::LoaderOptions validation_data;  // used if there is validation data
};

// The caller sets where times are recorded and in which memory batches are stored, because these depend on the devices.
// Code::kUsage if the labels do not match the network, there are more devices than images, or a text such as
// --initializer is malformed.
Result<TrainingOptions> training_options(const TrainingInput& input);

}  // namespace dtrain::role
