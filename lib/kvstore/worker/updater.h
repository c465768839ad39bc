// Updates weights on a device or in the host's memory, step by step, with the same arithmetic as a server. A BSP job
// with one worker therefore gives the same bits as a process that trains alone. The ArrayOptimizer decides where the
// arithmetic runs and where the state is stored. The Updater knows which part of each bucket it updates, and counts
// steps and samples.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvstore/counters.h"
#include "kvstore/store.h"
#include "kvstore/update_rule.h"
#include "optim/array_optimizer.h"

namespace dtrain::kvstore {

struct UpdaterOptions {
  UpdateRule rule = {};
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter; same as in the executor
};

// Not thread-safe.
class Updater {
 public:
  // `optimizer` must be made for `rule` and work on the memory of the views. Code::kUsage if the rule names an unknown
  // optimizer.
  static Result<std::unique_ptr<Updater>> create(UpdaterOptions options,
                                                 std::unique_ptr<optim::ArrayOptimizer> optimizer);
  // Updates in the host's memory with `threads` threads.
  static Result<std::unique_ptr<Updater>> create(UpdaterOptions options, int threads);

  // The view's memory must outlive all later calls. `owned` gives the part of each bucket's flat_interval that is
  // updated here, counted from the interval's beginning; if it is empty, every bucket is updated as a whole. A `state`
  // without arrays means zeros. Code::kData if the arrays of `state` do not fit the view.
  Result<> bind(const ParameterView& view, std::span<const FlatInterval> owned, const TrainingState& state);

  // Makes the optimizer search the bucket's gradients for values that are not finite (ArrayOptimizer::search).
  void search(size_t bucket) { optimizer_->search(bucket); }
  // Computes new weights from the bucket's gradients, which are a sum over `samples` samples. 0 samples mean that a
  // worker has left the step out: only the number of updates changes. Does not allocate.
  void update(size_t bucket, uint32_t samples);
  // Before the first update: from now on the device decides whether an update counts. settle() tells the decision, in
  // the order of updates; only then the counters change. At most one update may be undecided when the next one begins,
  // which is then prepared for both decisions.
  void decide_on_device() { decides_ = true; }
  void settle(uint32_t samples, bool counts);

  // The time spent in update() so far. Any thread may call it.
  [[nodiscard]] double seconds() const { return seconds_.load(std::memory_order_relaxed); }

  // Sets the factor by which the schedule's learning rate is multiplied in the following updates.
  void set_rate_factor(double factor);

  // Copies the part of the state that is updated here into `state`, which gets its arrays if it has none. The counters
  // are those of the first bucket.
  Result<> read_state(TrainingState& state) const;
  // The number of samples applied to the first bucket since the start of the job.
  [[nodiscard]] uint64_t samples() const { return counters_.front().samples; }
  // Visits the memory of the state, array by array, in canonical order.
  void for_each_slot(const std::function<void(std::span<float>)>& visit);
  // The same for the state of one bucket.
  void for_each_slot(size_t bucket, const std::function<void(std::span<float>)>& visit);
  // The progress of a bucket, which another process may have made.
  [[nodiscard]] const Counters& counters(size_t bucket) const { return counters_[bucket]; }
  void set_counters(size_t bucket, const Counters& counters) { counters_[bucket] = counters; }

 private:
  // A part of a parameter, which is one array in an optimizer's group of arrays.
  struct Piece {
    size_t parameter = 0;
    size_t begin = 0, count = 0;  // the part's first element and its number of elements
  };

  Updater(UpdaterOptions options, std::vector<std::string> slots, std::unique_ptr<optim::ArrayOptimizer> optimizer);
  [[nodiscard]] size_t end_of(size_t bucket) const;
  [[nodiscard]] std::vector<Piece> pieces_of(size_t bucket, std::span<const FlatInterval> owned) const;
  [[nodiscard]] optim::LearnedArray array_of(const Piece& piece) const;
  // Calls visit(piece, slot, memory) for all state that is updated here, in canonical order, until it returns an Error.
  template <class Visit>
  Result<> visit_state(const Visit& visit) const;

  const UpdaterOptions options_;
  const std::vector<std::string> slots_;
  const std::unique_ptr<optim::ArrayOptimizer> optimizer_;
  ParameterView view_;
  // The parts of parameters in each bucket that are updated here, indexed by bucket.
  std::vector<std::vector<Piece>> pieces_;
  std::vector<Counters> counters_;  // samples and updates of each bucket, indexed by bucket
  bool decides_ = false;            // whether decide_on_device() was called
  // The samples and updates of each bucket that are not in counters_ yet, because they are not decided.
  struct Undecided {
    uint64_t samples = 0, updates = 0;
  };
  std::vector<Undecided> undecided_;
  std::atomic<double> seconds_ = 0;
};

}  // namespace dtrain::kvstore
