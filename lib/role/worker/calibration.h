// The job that `dtrain plan` runs to measure how fast each worker is. It has the scheduler and the workers of the real
// job, on the same hosts and with the same network, batch size and input, but no servers. Each worker trains by itself
// with the real step loop: a warm-up, then the measured steps. Its gradients are discarded. All workers start together
// and none stops before all have measured, so that workers on one host slow each other down as they will in the real
// job.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/signals.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

inline constexpr int64_t kWarmUpBatches = 10;

struct CalibrationSetting {
  int64_t batches = 50;  // number of measured batches, after the warm-up
};

// Derives the flags of the calibration job from the resolved flags of the real one: no servers, one epoch as long as
// the measurement, no checkpoints. The number of threads is the one that the real job's processes would use.
job::Flags calibration_flags(job::Flags flags, const CalibrationSetting& setting);

// Runs one process of the calibration job, the scheduler or a worker. `flags` come from calibration_flags. A worker's
// log ends with two Speedometer lines, which plan/speed_log.h reads: the warm-up, and the median of the measured
// steps. Returns exit code 0, or 75 if it was asked to stop.
Result<int> run_calibration(const job::Flags& flags, const CalibrationSetting& setting, const Signals& signals);

}  // namespace dtrain::role
