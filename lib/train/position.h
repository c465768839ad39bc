// A position of a run, between two steps of a worker.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"

namespace dtrain::train {

struct Position {
  int64_t epoch = 0;       // number of finished epochs
  int64_t step = 0;        // number of steps made of the next epoch
  uint64_t own_steps = 0;  // steps of this worker since the start of the run
  uint64_t updates = 0;    // updates of the weights since the start of the run; the number of the store's next step
  uint64_t samples = 0;    // samples of all workers since the start of the run: the position in the schedule
  bool operator==(const Position&) const = default;
  // Whether this position comes earlier in the run. All workers agree on it, although their own steps differ.
  [[nodiscard]] bool is_before(const Position& other) const {
    return std::tie(epoch, step) < std::tie(other.epoch, other.step);
  }
};

// "epoch 3 step 120 own 590 updates 590 samples 75520"
std::string to_text(const Position& position);
// Reads this text. Code::kData if it has another form.
Result<Position> parse_position(std::string_view text);

}  // namespace dtrain::train
