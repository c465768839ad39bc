// From a job's description to what the parts are built with. Nothing here starts a thread or opens a socket.
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
#include "job/groups.h"
#include "job/job_spec.h"
#include "kvstore/update_rule.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "sync/machine.h"
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
// Who waits for whom. Of GSP the groups must be known.
sync::Policy policy_of(const job::JobSpec& spec);
// Whether all workers begin every step of the job with the same weights: BSP that waits for all of them.
bool has_same_weights(const job::JobSpec& spec);
// Workers that stop after the same number of steps, as sync/membership.h's Ready has it: those that wait for each
// other.
std::vector<uint32_t> stop_sets(const sync::Policy& policy);
// --gsp-weight, where the scheme has one.
kvstore::StalenessWeight staleness_weight(const job::JobFlags& flags);
// Whether the servers only sum gradients and leave the update of the weights to the workers.
bool servers_only_sum(const job::JobFlags& flags);
// --initializer. "default" is the initializer that MXNet 1.x chooses for the network.
Result<InitializerSpec> initializer_spec(const job::JobFlags& flags);

// Elements of each key of the stores: parameters, then statistics.
std::vector<uint64_t> key_sizes(const graph::Shapes& shapes);

// Fills weights and statistics with the values that every process of the job draws from the same seed.
Result<> initialize(const job::JobFlags& flags, const ParameterView& view);

// What training pictures go through.
data::Distortion distortion_of(const job::AugmentFlags& augment);

// The record files that --data-dir and the like name; none with --benchmark 1 and of data sets of other kinds.
Result<std::vector<data::IndexedFile>> record_files(const job::Flags& flags);
// Opens what --data-dir and the like name; --benchmark 1: synthetic batches of `rank`. `known`: of record files without
// an index, by path.
Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log, data::KnownOffsets known = {});

// The fractions that --data-allocator 1 reads from its file; empty without it. Code::kUsage: no file, or what is wrong
// in it.
Result<std::vector<data::Fraction>> read_sharding(const job::Flags& flags);

// The text of GSP's groups, for job::parse_groups; nothing for other schemes. Code::kUsage:
// no file. Under --ungrouped own none is needed unless it was named.
Result<std::optional<job::GroupsFile>> read_groups(const job::Flags& flags);

// How the `records` training records are shared, and how many batches each worker takes for one pass over its share.
// Workers that wait for each other all take as many batches as the largest of their shares fills.
struct PassPlan {
  std::vector<job::Interval> shares;  // by rank
  std::vector<int64_t> batches;       // by rank
};
Result<PassPlan> plan_passes(const job::JobSpec& spec, int64_t records, const std::vector<data::Fraction>& sharding);
// What of the description is open until the data has been opened: numbers of records, shares, batches. Groups of GSP
// must be filled in before.
Result<> complete_spec(int64_t records_train, int64_t records_val, const std::vector<data::Fraction>& sharding,
                       job::JobSpec& spec);
// The number of samples that all workers together process in an epoch, in which each makes one pass over its share.
// Learning-rate schedules count in this unit.
uint64_t samples_per_epoch(const job::JobSpec& spec);
// The records that a worker trains on in an epoch. Shares rotate every resplit_every epochs.
data::Share share_of(const job::JobSpec& spec, uint32_t rank, int64_t epoch);
// A warning about workers that wait for each other but have unequal shares. Empty if there are none.
std::string unequal_shares(const job::JobSpec& spec);
// Lines about a job's data that its user may not have meant: unequal shares, a batch larger than a worker's share, no
// validation data.
std::vector<std::string> data_hints(const job::JobSpec& spec);

// What --inject has this process do to itself: a worker, a server or the scheduler of that rank.
job::Faults own_faults(const job::Flags& flags, uint32_t rank);

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

// Whether the learned tensors stay in the devices' memory, summed and updated there: on GPUs, unless they pass through
// a host.
bool parameters_on_device(const job::Flags& flags);

// How the threads of one process are used. R: --threads, else the host's cores over the roles on it.
struct ThreadPlan {
  int compute = 1, decode = 1;
  int device = 1;  // each device's part of `compute`
};
ThreadPlan plan_threads(const job::Flags& flags);

}  // namespace dtrain::role
