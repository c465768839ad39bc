// The lines of a training log, in MXNet's format (docs/formats.md, "Log lines"). Existing log parsers must keep
// working: nothing with '=' may follow the last value, and "Train", "Valid" or "Time" must not follow "Epoch[n] " in
// any other line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/waits.h"
#include "job/flags/choices.h"
#include "train/metrics.h"
#include "train/time_to_accuracy.h"

namespace dtrain::train {

// The speed measured between two log lines.
struct Speed {
  // Number of batches since the last line; fewer than --disp-batches in the first window of an epoch that was resumed
  // in the middle.
  int64_t batches;
  double samples_per_s;
};

// Measures the speed between log lines. Batches are counted from 0 in every epoch, or from where a resumed epoch
// continues. The first batch only starts the clock, so the first window has one more batch in its metrics than in its
// time.
class Speedometer {
 public:
  Speedometer(int64_t frequent, int64_t batch_size) : frequent_(frequent), batch_size_(batch_size) {}
  // Called after each batch. Returns the speed since the last line if a line is due now.
  std::optional<Speed> tick(int64_t count, SteadyTime now);
  // Excludes from the measured time the duration `spent` of a validation or a checkpoint since the last line.
  void leave_out(SteadyTime::duration spent) {
    if (since_) *since_ += spent;
  }

 private:
  int64_t frequent_;
  int64_t batch_size_;
  std::optional<SteadyTime> since_;
  int64_t since_count_ = 0;  // index of the batch that ended at the time since_
  int64_t last_count_ = 0;
};

struct SpeedLine {
  int64_t epoch, count;  // `count`: index of the last batch of the window
  int64_t batches;       // number of batches in the window
  double samples_per_s;
  std::span<const MetricValue> values;
};
// "Epoch[0] Batch [0-20]\tSpeed: 1234.57 samples/sec\taccuracy=0.101562"; the legacy format has "Batch [20]".
std::string speed_line(const SpeedLine& line, job::LogFormat format);

std::string metric_line(int64_t epoch, const char* set, const MetricValue& metric);  // `set`: "Train" or "Validation"
// "Epoch[0] Batch [99] Validation-accuracy=0.5", a validation after the batch with index 99.
std::string batch_metric_line(int64_t epoch, int64_t count, const char* set, const MetricValue& metric);
std::string time_line(int64_t epoch, double seconds);
// "Reached train-accuracy 0.9 after 12.345 s and 46080 samples"
std::string reached_line(const char* set, const TimeToAccuracy& reached);  // `set`: "train" or "validation"
// "Batch:       1 conv1_output                   0.5", where 1 is the step, counted from 1.
std::string monitor_line(uint64_t step, const std::string& tensor, double value);
std::string learning_rate_line(uint64_t update, double rate);
std::string saved_line(const std::string& params_path);

}  // namespace dtrain::train
