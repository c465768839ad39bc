// The optimiser beside a device: it updates the device's weights with its gradients, and keeps its own state. The same
// arithmetic as a server's shard, so that a BSP job of one worker has the bits of a lone process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "kvstore/store.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

struct UpdaterOptions {
  UpdateRule rule = {};
  std::vector<size_t> bucket_begin = {0};  // as the executor has them
  int threads = 1;                         // of an update; the caller's is one of them
};

// One thread at a time calls it.
class Updater {
 public:
  // Code::kUsage: an unknown optimiser.
  static Result<std::unique_ptr<Updater>> create(UpdaterOptions options);

  // The view's memory must outlive what follows. `owned`, by bucket: what it updates of the bucket's flat_interval,
  // counted from its beginning; empty: all of every bucket. `state` without arrays: zeros. Code::kData: arrays of
  // `state` that do not fit the view.
  Result<> bind(const ParameterView& view, std::span<const FlatInterval> owned, const TrainingState& state);

  // New weights from the bucket's gradients, the sum over `samples` samples. Takes no memory.
  void update(size_t bucket, uint32_t samples);

  // What it owns of the state is copied into arrays made by empty_state. The counters are of the first bucket.
  void read_state(TrainingState& state) const;
  [[nodiscard]] TrainingState empty_state() const;
  // The memory of the state, array by array, in canonical order.
  void for_each_slot(const std::function<void(std::span<float>)>& visit);

 private:
  // A part of a parameter that one thread updates.
  struct Task {
    optim::Multipliers multipliers;
    std::span<float> weight;
    std::span<const float> gradient;
    std::vector<std::span<float>> state;  // by slot
  };
  // A part of a parameter, with its state.
  struct Piece {
    size_t parameter = 0;
    size_t begin = 0, count = 0;       // elements of it
    std::vector<Buffer<float>> slots;  // of `count`
  };

  Updater(UpdaterOptions options, std::vector<std::string> slots);
  [[nodiscard]] size_t end_of(size_t bucket) const;
  void own(size_t bucket, std::span<const FlatInterval> owned);
  void add_piece(size_t bucket, size_t parameter, size_t begin, size_t count);

  const UpdaterOptions options_;
  const std::vector<std::string> slots_;
  ThreadPool pool_;
  ParameterView view_;
  std::vector<Piece> pieces_;             // in canonical order
  std::vector<std::vector<Task>> tasks_;  // by bucket
  std::vector<Counters> counters_;        // by bucket
};

}  // namespace dtrain::kvstore
