// The JSON object at the head of a `.states` file, which describes the progress of the run. See docs/formats.md,
// "Optimizer states".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/loading/epoch_rest.h"
#include "optim/optimizer.h"
#include "train/loss_scale.h"
#include "train/position.h"

namespace dtrain::train {

// The best validation accuracy at the end of an epoch.
struct BestAccuracy {
  int64_t epoch = 0;
  double accuracy = 0;
  bool operator==(const BestAccuracy&) const = default;
};

struct CheckpointHeader {
  std::string job_hash;  // hash of the JobSpec of the run that wrote the checkpoint
  std::string job_text;
  optim::OptimizerSpec optimizer;
  Position position;          // without own_steps, which worker_steps or the steps of the finished epochs tell
  data::EpochRest rest = {};  // of the epoch in progress, if it was begun by other workers
  double learning_rate = 0;   // rate of the next update; informative only
  uint64_t seed = 0;
  // Metrics::sums() of the current epoch, indexed by rank; empty at the end of an epoch.
  std::vector<std::vector<double>> metric_sums;
  // States of the dynamic loss scales, indexed by rank; empty if the loss scale is not dynamic.
  std::vector<LossScale::State> loss_scales = {};
  // Steps of each worker since the start of the run, indexed by rank; empty if all have made the same number.
  std::vector<uint64_t> worker_steps = {};
  // The best accuracy of the run so far, if it has validated.
  std::optional<BestAccuracy> best = {};
  double rate_factor = 1;  // the factor by which the run has changed the schedule's rate
  // Epochs of the checkpoints that the run has written and not removed, if it removes any.
  std::vector<int64_t> kept_epochs = {};
  uint32_t params_crc = 0;  // CRC-32C of the .params file that these states belong to
  uint32_t slots_crc = 0;   // CRC-32C of the names and values of all slots
};

// The header as a JSON object. `parameters`: the names of the parameters, each of which is listed with the number of
// its updates.
std::string to_json(const CheckpointHeader& header, const std::vector<std::string>& parameters);
// Reads the header from its JSON text, which contains a checksum of itself that is verified. Code::kData: a key is
// missing or has a wrong value; the error names the key.
Result<CheckpointHeader> parse_checkpoint_header(std::string_view json);

}  // namespace dtrain::train
