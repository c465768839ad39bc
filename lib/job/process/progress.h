// The progress of a whole job. The scheduler reports it; the launcher displays it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/live.h"
#include "job/process/data_stage.h"
#include "job/process/worker_progress.h"

namespace dtrain::job {

// The scheduler prints this line, which the launcher parses:
//   live step=120 steps=4690 samples_per_s=5400 wait_data=0.02 wait_network=0.10 eta_s=80 epoch=3 epochs=10
//   checkpoint_s=0.4 data_stage=3 workers=2 training=0.1310/0.9620 validation=0.0810/0.9770
//   worker0=120/2600.0/0.020/0.100/3/- worker1=...
struct Progress {
  static constexpr size_t kWorkersMax = 16;  // the maximum number of workers on the line

  int64_t step = 0, steps = 0;               // steps done, and their total
  int64_t epoch = 0, epochs = 0;             // epochs done, and their total
  double samples_per_s = 0;                  // rate of the whole job; 0: not known yet
  double wait_data = 0, wait_network = 0;    // fractions of the workers' time, 0 to 1
  double eta_s = 0;                          // time until the end; negative: not known
  double checkpoint_s = 0;                   // the longest time that writing a checkpoint has taken
  DataStage data_stage = DataStage::kNone;   // the stage that limits the worker that waits longest for data
  std::optional<double> validated = {};      // progress of the current validation, 0 to 1: the mean of its workers
  std::optional<Quality> training = {};      // quality in the epoch so far: the mean over the workers
  std::optional<Quality> validation = {};    // quality in the last validation
  size_t worker_count = 0;                   // number of all workers
  std::vector<WorkerProgress> workers = {};  // the slowest workers, in order of rank
};

// The line `live ...`, without a newline.
std::string host_line(const Progress& progress);
// Nullopt if `line` is not a line `live ...`. Unknown keys are skipped, because a newer scheduler may print more.
std::optional<Progress> parse_progress(std::string_view line);
// Removes from the last report of a run what makes no sense after its end: the time left, and the progress of a
// validation.
Progress at_end(Progress progress);
// Sets validated, training, validation, worker_count and workers from what all workers have reported.
void set_workers(std::vector<WorkerProgress> all, Progress& progress);

// The current epoch, counted from 1: the epoch of the last step, so validation after an epoch belongs to that epoch.
int64_t epoch_under_way(const Progress& progress);

// Formats the progress for people:
// "epoch 3/10  step 120/4690  loss 0.131  accuracy 96.2 %  5400 samples/s  ETA 1m20s  validation 97.7 %  validation
// loss 0.081  waiting: data 2 %, network 10 %". The epoch is the current one, counted from 1. If data limits the job,
// the last part is "waiting: data 34 % (the limit: decoding), network 0 %"; it is left out if no worker waits. During
// validation, "validating 45 %" follows the step number.
std::string format_progress(const Progress& progress);
// The text of format_progress with a bar. In a job of several workers, one line for each worker follows:
// "worker 3      1800 samples/s  step     121  network  10 %  data 2 %  node7".
// `host_of` gives the host of a worker; null: not shown.
Live live_progress(const Progress& progress, const std::function<std::string(uint32_t rank)>& host_of = nullptr);
// True if a line of a job's output was written by format_progress().
bool is_formatted_progress(std::string_view line);

}  // namespace dtrain::job
