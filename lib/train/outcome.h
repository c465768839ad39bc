// The results of a run, as one worker knows them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/checkpoint_header.h"
#include "train/data_limit.h"
#include "train/time_to_accuracy.h"

namespace dtrain::train {

struct TrainOutcome {
  bool stopped = false;  // on request; a checkpoint was written if there is a save_prefix
  Position position;
  std::optional<double> train_accuracy, validation_accuracy,
      best_validation_accuracy;  // of finished epochs: the last one's, and the best one's
  std::vector<TimeToAccuracy> time_to_train_accuracy, time_to_validation_accuracy;  // on rank 0
  int64_t epochs_at_chance = 0;  // in this run: epochs whose training loss was no better than a guess
  uint64_t samples = 0;          // of the whole job, in this run
  double samples_per_s = 0;      // of the whole job, without validation
  double wait_data_share = 0, wait_network_share = 0;
  DataLimit data_limit = {};  // of the whole run
  int64_t bad_records = 0;
};

}  // namespace dtrain::train
