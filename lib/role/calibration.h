// The job that `dtrain plan` runs to measure how fast each worker is. It has the scheduler and the workers of the real
// job, on the same hosts and with the same network, batch size and input, but no servers. Each worker trains by itself
// with the real step loop: a warm-up, then the measured steps. Its gradients are discarded. All workers start together
// and none stops before all have measured, so that workers on one host slow each other down as they will in the job.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/signals.h"
#include "job/flags.h"

namespace dtrain::role {

inline constexpr int64_t kWarmUpBatches = 10;

struct CalibrationSetting {
  int64_t batches = 50;  // that are measured
};

// The flags of such a job, from those of the one that it is for: no servers, one epoch as long as the measuring, no
// checkpoint, a thread count as if the servers were there. Resolved flags, and so are these.
job::Flags calibration_flags(job::Flags flags, const CalibrationSetting& setting);

// One process of it, scheduler or worker, by flags of calibration_flags. A worker's log has two lines of a Speedometer
// at the end, which tools/speed_log.h reads: the warm-up, and the median step. 0, or 75 if it was asked to stop; an
// Error otherwise.
Result<int> run_calibration(const job::Flags& flags, const CalibrationSetting& setting, const Signals& signals);

}  // namespace dtrain::role
