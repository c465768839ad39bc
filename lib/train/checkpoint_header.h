// The JSON object at the head of a `.states` file: where a run stood. formats.md 5.5.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "optim/optimizer.h"
#include "train/loss_scale.h"

namespace dtrain::train {

// Between two steps: `epoch` epochs are finished, and `step` steps of the next one.
struct Position {
  int64_t epoch = 0;
  int64_t step = 0;
  bool operator==(const Position&) const = default;
  bool operator<(const Position& other) const { return std::tie(epoch, step) < std::tie(other.epoch, other.step); }
};

struct CheckpointHeader {
  std::string job_hash;  // of the JobSpec that wrote it, and its text
  std::string job_text;
  optim::OptimizerSpec optimizer;
  Position position;
  uint64_t samples = 0;  // applied since the start: the position of the schedule
  uint64_t updates = 0;
  double learning_rate = 0;  // of the next update: for the reader's eye
  uint64_t seed = 0;
  // Metrics::sums() of the epoch begun, by rank; empty at an epoch's end.
  std::vector<std::vector<double>> metric_sums;
  // Of the workers with a dynamic loss scale, by rank; else empty.
  std::vector<LossScale::State> loss_scales = {};
  // Of each worker since the start of the run, by rank, where they do not go in step; else empty.
  std::vector<uint64_t> worker_steps = {};
  uint32_t params_crc = 0;  // CRC-32C of the .params file that this one belongs to
  uint32_t slots_crc = 0;   // CRC-32C of the names and values of all slots
};

// `parameters`: the names that the updates are listed by.
std::string to_json(const CheckpointHeader& header, const std::vector<std::string>& parameters);
// Code::kData, naming the key that is missing or wrong; the text carries a checksum of itself.
Result<CheckpointHeader> parse_checkpoint_header(std::string_view json);

}  // namespace dtrain::train
