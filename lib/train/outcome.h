// How a run ended, as one worker knows it. Its figures are metrics (run_metrics.h).
#pragma once

#include "train/checkpoint_header.h"

namespace dtrain::train {

struct TrainOutcome {
  bool stopped = false;  // on request; a checkpoint was written if there is a save_prefix
  Position position;
};

}  // namespace dtrain::train
