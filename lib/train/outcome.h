// How a run ended for one worker. The numbers about the run are metrics (run_metrics.h).
#pragma once

#include "train/checkpoint_header.h"

namespace dtrain::train {

struct TrainOutcome {
  bool stopped = false;  // stopped on request; a checkpoint was written if there is a save_prefix
  bool left = false;     // left the job as asked, before its end; the other workers continue
  Position position;
};

}  // namespace dtrain::train
