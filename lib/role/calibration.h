// The job that `dtrain plan` runs to find out how fast each worker is (distributed.md 2.7, R-G10): a scheduler and the
// workers of the real job, on its hosts, with its network, batch and input, but without servers. Each trains by itself
// with the real step loop, for so many steps after a warm-up; its gradients go nowhere. They begin together and none
// ends before all have measured, so that workers of one host slow each other down as they will.
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
