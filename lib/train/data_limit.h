// Whether data limits how fast a worker trains, and which stage of reading an image does. Everything is measured: the
// steps' waits for batches, the times of some of the images (images/augmentation/stages.h), and the CPU time of the
// process.
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

// Since training began; the difference of two of them is a period.
struct DataUse {
  double seconds = 0;     // of the steps
  double wait_s = 0;      // of these, spent waiting for batches
  int64_t images = 0;     // in the steps' batches
  images::Stages stages;  // of some of the images that were read
  double cpu_s = 0;       // of all threads of the process
};
DataUse operator-(const DataUse& now, const DataUse& before);

struct Decoders {
  int threads = 1;         // that decode
  int cores = 1;           // that this process is meant to keep busy
  bool are_tuned = false;  // --data-nthreads auto chooses the threads
};

struct DataLimit {
  double wait_share = 0;   // of the steps' time
  bool is_judged = false;  // training has gone on for long enough to tell: 30 s
  bool is_limit = false;   // it is, and the share is more than a tenth
  // The stage that takes most of the decoders' time; kNone: the data set has no stages, or no image was timed.
  job::DataStage stage = job::DataStage::kNone;
  double stage_share = 0;                 // of the decoders' time
  images::Stages stages = {};             // as in DataUse
  std::optional<double> decoders_busy{};  // share of the decode threads' time, 0 to 1; nullopt: not known
  double cores_busy = 0;                  // share of the cores' time, 0 to 1
};
// Whether waiting for batches for this share of the steps' time is worth a user's attention.
bool is_data_limit(double wait_share);
// `trained_s`: how long training has gone on by the end of the period.
DataLimit data_limit(const DataUse& period, const Decoders& decoders, double trained_s);

// "data is the limit: 34 % of the time was spent waiting for batches; decoding takes 71 % of the decoders' time (3.10
// of 4.37 ms an image, 1 thread, busy for 98 % of the time); use --data-nthreads 2". The advice follows from the
// numbers.
std::string data_limit_text(const DataLimit& limit, const Decoders& decoders);

// The milliseconds of an image in each stage, by the stage's key; empty if no image was timed.
std::vector<std::pair<std::string, double>> stage_ms(const images::Stages& stages);
// The same as metrics: read_ms and so on.
std::vector<telemetry::Value> stage_values(const images::Stages& stages);

}  // namespace dtrain::train
