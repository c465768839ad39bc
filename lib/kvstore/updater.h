// The update beside a device: its weights become new by its gradients, step by step. The same arithmetic as a server's
// shard, so that a BSP job of one worker has the bits of a lone process. Where it takes place, and where the state
// lies, is the optimizer's business: here is what it owns of each bucket, and how far the training is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvstore/store.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire.h"
#include "optim/array_optimizer.h"

namespace dtrain::kvstore {

struct UpdaterOptions {
  UpdateRule rule = {};
  std::vector<size_t> bucket_begin = {0};  // as the executor has them
};

// One thread at a time calls it.
class Updater {
 public:
  // `optimizer`: of the rule, over the memory that the views are of. Code::kUsage: an unknown rule.
  static Result<std::unique_ptr<Updater>> create(UpdaterOptions options,
                                                 std::unique_ptr<optim::ArrayOptimizer> optimizer);
  // By `threads` threads of the host.
  static Result<std::unique_ptr<Updater>> create(UpdaterOptions options, int threads);

  // The view's memory must outlive what follows. `owned`, by bucket: what it updates of the bucket's flat_interval,
  // counted from its beginning; empty: all of every bucket. `state` without arrays: zeros. Code::kData: arrays of
  // `state` that do not fit the view.
  Result<> bind(const ParameterView& view, std::span<const FlatInterval> owned, const TrainingState& state);

  // New weights from the bucket's gradients, the sum over `samples` samples. Takes no memory.
  void update(size_t bucket, uint32_t samples);

  // The last update of the bucket has changed nothing, and counts for nothing.
  void take_back(size_t bucket, uint32_t samples);

  // What it owns of the state is copied into arrays made by empty_state. The counters are of the first bucket.
  Result<> read_state(TrainingState& state) const;
  [[nodiscard]] TrainingState empty_state() const;
  // Applied to the first bucket since the start of the job.
  [[nodiscard]] uint64_t samples() const { return counters_.front().samples; }
  // The memory of the state, array by array, in canonical order.
  void for_each_slot(const std::function<void(std::span<float>)>& visit);

 private:
  // A part of a parameter, as an array of a group of the optimizer.
  struct Piece {
    size_t parameter = 0;
    size_t begin = 0, count = 0;  // elements of it
  };

  Updater(UpdaterOptions options, std::vector<std::string> slots, std::unique_ptr<optim::ArrayOptimizer> optimizer);
  [[nodiscard]] size_t end_of(size_t bucket) const;
  [[nodiscard]] std::vector<Piece> pieces_of(size_t bucket, std::span<const FlatInterval> owned) const;
  [[nodiscard]] optim::LearnedArray array_of(const Piece& piece) const;
  // Calls visit(piece, slot, memory) for all that it owns, in canonical order, until an Error.
  template <class Visit>
  Result<> visit_state(const Visit& visit) const;

  const UpdaterOptions options_;
  const std::vector<std::string> slots_;
  const std::unique_ptr<optim::ArrayOptimizer> optimizer_;
  ParameterView view_;
  std::vector<std::vector<Piece>> pieces_;  // by bucket
  std::vector<Counters> counters_;          // by bucket
};

}  // namespace dtrain::kvstore
