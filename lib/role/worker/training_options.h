// What a worker's training is built with, made from the flags, the job's description and the data. It opens nothing, so
// tests can follow each flag to the options that it sets.
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

// All but `rank` and `keeps_weights` must outlive the call.
struct TrainingInput {
  const job::Flags& flags;   // of this process; its part `job` is that of the spec
  const job::JobSpec& spec;  // complete
  const job::JobPlan& plan;  // of the spec
  const Network& network;
  const data::DataSets& data;
  const std::vector<size_t>& bucket_begin;
  const std::string& run_dir;
  const std::optional<Resumed>& resumed;
  uint32_t rank = 0;
  bool keeps_weights = true;  // as in TrainingSetup
};

struct TrainingOptions {
  train::TrainSpec trainer;             // without `pretrained`, which needs a look at the files
  std::vector<int64_t> device_batches;  // each device's part of the batch
  exec::Options training, inference;    // of the executors, whose batch_size is that of all devices
  data::LoaderOptions training_data;
  data::LoaderOptions validation_data;  // if there is validation data
  std::optional<uint64_t> kill_at;      // --inject: the step at which this process kills itself
};

// Where times are recorded and in which memory batches lie is left to the caller, because that depends on the devices.
// Code::kUsage: the labels do not match the network, there are more devices than images, or a text such as
// --initializer cannot be read.
Result<TrainingOptions> training_options(const TrainingInput& input);

}  // namespace dtrain::role
