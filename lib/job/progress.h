// How far a whole job is: said by the scheduler, shown by the launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::job {

// How far the whole job is. The scheduler prints it for machines:
//   live step=120 steps=4690 samples_per_s=5400 wait_data=0.02 wait_network=0.10 eta_s=80 epoch=3 epochs=10
struct Progress {
  int64_t step = 0, steps = 0;             // done, in all
  int64_t epoch = 0, epochs = 0;           // done, in all
  double samples_per_s = 0;                // of the job; 0: not known yet
  double wait_data = 0, wait_network = 0;  // shares of the workers' time, 0 to 1
  double eta_s = 0;                        // negative: not known
};

// The line, without the newline.
std::string machine_line(const Progress& progress);
// Nothing if it is not such a line. Unknown keys are skipped: a newer scheduler may say more.
std::optional<Progress> parse_progress(std::string_view line);
// The same when the job has ended well: reports come now and then, and the last one is from before the end.
Progress completed(Progress progress);
// "epoch 3  step 120/4690  5400 samples/s  waiting: data 2 %, network 10 %  ETA 1m20s"
std::string format_progress(const Progress& progress);

}  // namespace dtrain::job
