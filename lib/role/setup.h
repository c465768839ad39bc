// From a job's description to what the parts are built with. Nothing here starts a thread or opens a socket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loader.h"
#include "data/open.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "job/job_spec.h"
#include "kvstore/update_rule.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tensor/parameters.h"
#include "tensor/pixels.h"

namespace dtrain::role {

// The network that the flags name, with the shapes of its tensors.
struct Network {
  graph::Graph graph;
  graph::Shapes shapes;
};
Result<Network> build_network(const job::JobFlags& flags);

optim::OptimizerSpec optimizer_spec(const job::JobFlags& flags);
optim::ScheduleSpec schedule_spec(const job::JobFlags& flags);
kvstore::UpdateRule update_rule(const job::JobSpec& spec);
// Whether the servers of this job only sum (R-S6).
bool servers_only_sum(const job::JobFlags& flags);
// "default" is MXNet 1.x's choice by network (models.md 3.3).
Result<optim::InitializerSpec> initializer_spec(const job::JobFlags& flags);

// Elements of each key of the stores: parameters, then statistics.
std::vector<uint64_t> key_sizes(const graph::Shapes& shapes);

// Fills weights and statistics with the values that every process of the job draws from the same seed.
Result<> initialize(const job::JobFlags& flags, const ParameterView& view);

// Opens what --data-dir and the like name; --benchmark 1: synthetic batches of `rank`.
Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log);

// What F 3.8 says of an epoch: `records` of the training files, W workers, batches of B.
struct EpochPlan {
  std::vector<job::Interval> shares;  // by rank
  int64_t batches = 0;                // of each worker
};
Result<EpochPlan> plan_epoch(const job::JobFlags& flags, int64_t records);
// What of the description is open until the data has been opened: numbers of records, shares, batches.
Result<> complete_spec(int64_t records_train, int64_t records_val, job::JobSpec& spec);
// Samples that all workers together apply in an epoch: the unit of schedules (R-D9).
uint64_t samples_per_epoch(const job::JobSpec& spec);

// --dtype.
Type type_of(const job::JobFlags& flags);

// What the devices are given of this data's images: pixels, which they normalise so; nullptr: numbers. GPUs take pixels
// wherever there are any: a quarter of the bytes on the way to them, and of the decoders' memory. On the CPU the
// decoders' threads have the time to normalise, and the others do not.
std::shared_ptr<const Normalisation> normalisation_of_batches(const job::Flags& flags, const data::Dataset& data);

// The devices of this process, and their parts of its batch. Code::kUsage: more devices than images.
size_t device_count(const job::Flags& flags);
Result<std::vector<int64_t>> device_batches(const job::Flags& flags);

// Which parameters travel together (exec's bucket_begin): one bucket where nothing travels.
std::vector<size_t> plan_buckets(const job::Flags& flags, const Network& network);

// Whether the learned tensors stay in the devices' memory, summed and updated there: on GPUs, unless they travel.
bool parameters_on_device(const job::Flags& flags);

// How the threads of one process are used. R: --threads, else the host's cores over the roles on it.
struct ThreadPlan {
  int compute = 1, decode = 1;
  int device = 1;  // each device's part of `compute`
};
ThreadPlan plan_threads(const job::Flags& flags);

}  // namespace dtrain::role
