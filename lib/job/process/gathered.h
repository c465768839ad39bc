// What the workers of a job send each other in an all-gather (Coordinator::all_gather): one struct for each purpose.
// proto/scheduler.proto, `Contribution`, has the same messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dtrain::job {

// A piece of a byte string that worker 0 sends to all workers; see role/worker/meeting.h. The other workers send an
// empty piece.
struct Chunk {
  uint64_t size = 0;  // size of the whole string
  std::string bytes;
};

// ---- Messages about the indexing of record files, before the job starts.

struct FileCount {
  uint64_t files = 0;
};
// Sent by worker 0; ignored from the others.
struct IndexProgress {
  bool is_done = false;
  uint64_t offset = 0;  // bytes read of the record file
};

// ---- Messages for joining the workers' devices.

struct DeviceCount {
  uint64_t devices = 0;
};
// How the other workers reach this one. Written and checked by the collective that connects them (comm::Exchange).
struct Address {
  std::string bytes;
};
// The same, with another address for each worker (comm::PairExchange). A worker sends all of them, indexed by rank, and
// receives of each other worker only the one that is for it.
struct PairAddresses {
  std::vector<std::string> bytes;
};

// ---- Messages during training.

// The part of a checkpoint that belongs to each worker.
struct WorkerState {
  uint64_t steps = 0;  // number of steps of the worker since the start of the run
  double loss_scale = 0;
  int64_t good_steps = 0;           // successive steps without overflow, for a dynamic loss scale
  std::vector<double> metric_sums;  // sums of the worker's metrics over the current epoch
};
struct BestEpoch {
  int64_t epoch = 0;
  double accuracy = 0;
};
// Where training starts or, at a border, continues. Sent by worker 0 or, at a border, by one that knows it; the others
// send an empty one.
struct RunStart {
  std::string position;                   // as train::to_text() writes it
  std::string rest;                       // of the epoch in progress, as train::to_text() writes it
  double rate_factor = 1;                 // factor on the schedule's learning rate
  std::vector<WorkerState> workers;       // the state of each worker, indexed by rank; empty: no worker has made a step
  std::optional<BestEpoch> best = {};     // the best accuracy of the run so far
  std::vector<int64_t> kept_epochs = {};  // epochs of the checkpoints that the run has written and not removed
  // To workers that join the running job: whether the sender has given the servers what these workers need.
  bool has_handed_over = false;
  // At a border: whether the run goes back to this position, which all workers take over from the servers. Then
  // `workers` has the state of each worker.
  bool goes_back = false;
  uint32_t giver = 0;  // with goes_back: the rank of the sender, from which a group without servers gets the weights
  bool began_with_model = false;  // whether the run began with a model or a checkpoint, and not with drawn weights
};
// A worker has reached the end of an epoch or a border, or was asked to stop.
struct EpochEnd {
  uint64_t steps = 0;  // steps of this worker since the start of the run
  bool stopping = false;
  uint64_t border = 0;  // number of the border; 0: it has reached none
  bool saves = false;   // whether this worker is to write a checkpoint at the border
  // Whether the worker cannot complete its step, because a member of the group in which gradients are added up is gone,
  // or a server.
  bool is_torn = false;
  bool is_whole = false;  // whether the worker has made all steps of its epoch
  // The newest version of the servers' snapshots to which the worker can go back; nullopt: none limits it.
  std::optional<uint64_t> kept = {};
};
struct Speed {
  double samples_per_s = 0;
};
// Sent by worker 0 after it has told the servers the new groups. The other workers send an empty one.
struct NewGroups {
  uint64_t next_step = 0;
};
// The new factor on the schedule's learning rate. Sent by the leader when it has told the servers; the others send 0.
struct RateChange {
  double factor = 0;  // the new factor; 0: the factor does not change
};
// What a worker has done in the run.
struct WorkerTimes {
  uint64_t samples = 0, batches = 0;
  double seconds = 0;
};
// Durations of some of a worker's batches. Sent by the slowest worker; the others send an empty list.
struct BatchDurations {
  std::vector<double> ms;
};

using Contribution =
    std::variant<Chunk, FileCount, IndexProgress, DeviceCount, Address, RunStart, EpochEnd, WorkerState, Speed,
                 NewGroups, RateChange, WorkerTimes, BatchDurations, PairAddresses>;

}  // namespace dtrain::job
