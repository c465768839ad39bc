// The metrics of a whole run, from which summary.json is made at its end.
#pragma once

#include <vector>

#include "job/process/data_stage.h"
#include "telemetry/registry.h"
#include "train/data_limit.h"
#include "train/pace.h"
#include "train/time_to_accuracy.h"

namespace dtrain::train {

enum class DataSet : uint8_t { kTraining, kValidation };

// Sets how the time of the steps was spent: on waits, from `totals`, and on reading data, from `data`, which must cover
// the same time.
void set_run_use(telemetry::Registry& registry, const PaceTotals& totals, const DataLimit& data);
void set_reached(telemetry::Registry& registry, DataSet of, const TimeToAccuracy& level);

// The accuracy levels that were reached, in ascending order.
std::vector<TimeToAccuracy> reached_levels(const telemetry::Snapshot& snapshot, DataSet of);
// The stage that took most of the decoders' time over the run; kNone if the stages were not timed.
job::DataStage slowest_stage(const telemetry::Snapshot& snapshot);

}  // namespace dtrain::train
