// The progress of a whole job. The scheduler reports it; the launcher displays it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "job/process/data_stage.h"

namespace dtrain::job {

// The scheduler prints this line, which the launcher parses:
//   live step=120 steps=4690 samples_per_s=5400 wait_data=0.02 wait_network=0.10 eta_s=80 epoch=3 epochs=10 checkpoint_s=0.4 data_stage=3
struct Progress {
  int64_t step = 0, steps = 0;              // steps done, and their total
  int64_t epoch = 0, epochs = 0;            // epochs done, and their total
  double samples_per_s = 0;                 // of the whole job; 0: not known yet
  double wait_data = 0, wait_network = 0;   // fractions of the workers' time, 0 to 1
  double eta_s = 0;                         // time until the end; negative: not known
  double checkpoint_s = 0;                  // the longest time that writing a checkpoint has taken
  DataStage data_stage = DataStage::kNone;  // that limits the worker that waits most for data
};

// The line above, without a newline.
std::string machine_line(const Progress& progress);
// Nullopt if `line` is not such a line. Unknown keys are skipped, because a newer scheduler may print more.
std::optional<Progress> parse_progress(std::string_view line);
// The progress after a successful end, made from the last report, which was sent before the end.
Progress completed(Progress progress);
// For people:
// "epoch 3  step 120/4690  5400 samples/s  waiting: data 2 %, network 10 %  ETA 1m20s"; if data limits the job,
// "waiting: data 34 % (the limit: decoding), network 0 %".
std::string format_progress(const Progress& progress);
// Whether a line of a job's output is such a text.
bool is_formatted_progress(std::string_view line);

}  // namespace dtrain::job
