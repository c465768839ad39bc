// Turns the job's description into the parameters of its parts. Nothing here starts a thread or opens a socket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loader.h"
#include "data/open.h"
#include "data/sharding_file.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "job/spec/groups.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
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
// `plan`: of the complete JobSpec with these flags.
kvstore::UpdateRule update_rule(const job::JobFlags& flags, const job::JobPlan& plan);
// --gsp-weight; no weighting for schemes other than GSP.
kvstore::StalenessWeight staleness_weight(const job::JobFlags& flags);
// --initializer. "default" is the initializer that MXNet 1.x chooses for the network.
Result<InitializerSpec> initializer_spec(const job::JobFlags& flags);

// The number of elements of each key of the stores: parameters, then statistics.
std::vector<uint64_t> key_sizes(const graph::Shapes& shapes);

// Fills weights and statistics with initial values. Every process of the job draws the same ones from the job's seed.
Result<> initialize(const job::JobFlags& flags, const ParameterView& view);

// How training pictures are distorted.
data::Distortion distortion_of(const job::AugmentFlags& augment);

// The record files that --data-dir and the related flags name; none with --benchmark 1 or for data sets of other kinds.
Result<std::vector<data::IndexedFile>> record_files(const job::Flags& flags);
// Opens the data that --data-dir and the related flags name; with --benchmark 1, synthetic batches drawn for `rank`.
// `known` has the offsets of record files without an index, by path.
Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log, data::KnownOffsets known = {});

// Reads the fractions of the --data-sharding-file; empty unless --data-allocator 1. Code::kUsage: there is no such
// file, or it is invalid.
Result<std::vector<data::Fraction>> read_sharding(const job::Flags& flags);

// Reads the text of GSP's groups, for job::parse_groups; nullopt for other schemes. Code::kUsage: there is no such
// file. With --ungrouped own the file may be missing unless --groups-file names it.
Result<std::optional<job::GroupsFile>> read_groups(const job::Flags& flags);

// How the `records` training records are shared, and how many batches each worker takes for one pass over its share.
// Workers that wait for each other all take as many batches as the largest of their shares fills.
struct PassPlan {
  std::vector<job::Interval> shares;  // by rank
  std::vector<int64_t> batches;       // by rank
};
Result<PassPlan> plan_passes(const job::JobSpec& spec, int64_t records, const std::vector<data::Fraction>& sharding);
// Fills in what was not known before the data was opened: numbers of records, shares, batches. The groups of GSP must
// be filled in already. Returns what follows from the complete spec.
Result<job::JobPlan> complete_spec(int64_t records_train, int64_t records_val,
                                   const std::vector<data::Fraction>& sharding, job::JobSpec& spec);
// The records that a worker trains on in an epoch. Shares rotate every resplit_every epochs.
data::Share share_of(const job::JobSpec& spec, uint32_t rank, int64_t epoch);
// A warning about workers that wait for each other but have unequal shares. Empty if there are none.
std::string unequal_shares(const job::JobSpec& spec, const job::JobPlan& plan);
// Warnings about a job's data that its user may not intend: unequal shares, a batch larger than a worker's share, no
// validation data.
std::vector<std::string> data_hints(const job::JobSpec& spec, const job::JobPlan& plan);

// The faults that --inject asks this process to simulate; `rank` is that of this worker, server or scheduler.
job::Faults own_faults(const job::Flags& flags, uint32_t rank);

// --dtype.
Type type_of(const job::JobFlags& flags);

// How the devices turn pixels into numbers. Null if batches already contain numbers. GPUs receive pixels whenever the
// data set has any: a quarter of the bytes to transfer, and of the memory that the decoders need. On the CPU the
// decoder threads have the time to normalize, and the compute threads do not.
std::shared_ptr<const Normalisation> normalisation_of_batches(const job::Flags& flags, const data::Dataset& data);

// The number of this process's devices, and how its batch is split among them. Code::kUsage: more devices than images.
size_t device_count(const job::Flags& flags);
Result<std::vector<int64_t>> device_batches(const job::Flags& flags);

// Which parameters are sent together (exec's bucket_begin); one bucket if none are sent.
std::vector<size_t> plan_buckets(const job::Flags& flags, const Network& network);

// Whether weights stay in the devices' memory and are summed and updated there. True on GPUs, but in a distributed
// store only if NCCL sums the gradients.
bool parameters_on_device(const job::Flags& flags);

// How the threads of one process are used. The total is --threads, else the host's cores divided by the number of
// processes of the job on it.
struct ThreadPlan {
  int compute = 1, decode = 1;
  int device = 1;  // of `compute`, per device
};
ThreadPlan plan_threads(const job::Flags& flags);

}  // namespace dtrain::role
