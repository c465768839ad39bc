// Whether data limits how fast a worker trains, and which stage of reading an image is the slowest. Everything is
// measured: the steps' waits for batches, the times of some of the images (images/augmentation/stages.h), and the CPU
// time of the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "images/augmentation/stages.h"
#include "job/process/data_stage.h"
#include "telemetry/record.h"

namespace dtrain::train {

// Totals since training began. The difference of two of them describes a period.
struct DataUse {
  double seconds = 0;     // total time of the steps
  double wait_s = 0;      // the part of `seconds` that the steps waited for batches
  int64_t images = 0;     // number of images in the steps' batches
  images::Stages stages;  // times of some of the images that were read
  double cpu_s = 0;       // CPU time of all threads of the process
};
DataUse operator-(const DataUse& now, const DataUse& before);

struct Decoders {
  int threads = 1;         // number of decode threads
  int cores = 1;           // number of cores that this process should keep busy
  bool are_tuned = false;  // --data-nthreads auto chooses the threads
};

struct DataLimit {
  double wait_share = 0;   // share of the steps' time in which they waited for batches
  bool is_judged = false;  // training has run for long enough to judge: 30 s
  bool is_limit = false;   // data is the limit: is_judged is true, and wait_share is more than a tenth
  // The stage that takes most of the decoders' time; kNone: the data set has no stages, or no image was timed.
  job::DataStage stage = job::DataStage::kNone;
  double stage_share = 0;      // share of the decoders' time that `stage` takes
  images::Stages stages = {};  // times of the images that were timed, in total over the period
  // Share of the time that the decode threads were busy, 0 to 1; nullopt: not known.
  std::optional<double> decoders_busy{};
  double cores_busy = 0;  // share of the time that the cores were busy, 0 to 1
};
// Whether a user should be told that the steps spend this share of their time waiting for batches.
bool is_data_limit(double wait_share);
// Judges whether data was the limit during a period. `trained_s`: how long training had run at the end of the period.
DataLimit data_limit(const DataUse& period, const Decoders& decoders, double trained_s);

// Example: "data is the limit: 34 % of the time was spent waiting for batches; decoding takes 71 % of the decoders'
// time (3.10 of 4.37 ms an image, 1 thread, busy for 98 % of the time); use --data-nthreads 2". The advice depends on
// the numbers.
std::string data_limit_text(const DataLimit& limit, const Decoders& decoders);

// The milliseconds that an image spends in each stage, with the stage's key; empty if no image was timed.
std::vector<std::pair<std::string, double>> stage_ms(const images::Stages& stages);
// The times of stage_ms as metrics: read_ms and so on.
std::vector<telemetry::Value> stage_values(const images::Stages& stages);

}  // namespace dtrain::train
