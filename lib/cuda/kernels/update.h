// The update of all weights in one launch, the decision whether a step counts, and the loss scale that keeps float16
// gradients in range. kernels/tensor.h has the conventions of all kernels.
//
// Values that change from step to step (learning rate, scales, whether a gradient overflowed) are read from device
// memory, never from launch arguments. So a captured step can be replayed unchanged, and the device never waits for the
// host.
#pragma once

#include <algorithm>
#include <iterator>

#include "cuda/kernels/tables.h"
#include "cuda/kernels/tensor.h"
#include "optim/formulas.h"
#include "optim/loss_scale.h"
#include "optim/noise.h"

namespace dtrain::cuda {

// A learned tensor. All pointers have `count` elements in the same order, which may be any order (KRSC, canonical).
// `weight` is the float32 master copy. `copy`, if not null, is the copy with which the network computes; both are
// written together. If the arrays are aligned to 16 bytes, 4 elements are moved at a time, otherwise one.
struct UpdateTensor {
  float* weight = nullptr;
  float* state[optim::kSlotsMax] = {};  // the slots of the rule; the remaining pointers are null
  const void* gradient = nullptr;
  void* copy = nullptr;
  int64_t count = 0;
  double learning_rate = 1;  // multiplies the rate of the step
  double weight_decay = 0;   // including the tensor's multiplier
  Type gradient_type = Type::kFloat32, copy_type = Type::kFloat32;
  // The position of the elements in the network (optim::ArrayPart), for rules with noise.
  uint64_t array = 0, begin = 0;
  bool adapts = true;  // whether norms change the tensor's learning rate, for rules that use norms
};

// The scalars of a step, in device memory, written before each step.
struct StepScalars {
  double learning_rate = 0;           // the schedule's rate
  optim::Correction correction = {};  // correction of the learning rate, for rules that count updates
  // The scale of optim::UpdateStep: 1 / samples, times the weight that the scheme gives the update.
  double gradient_scale = 1;
  double momentum_factor = 1;  // factor of the momentum, for rules that correct it
  uint64_t noise = 0;          // noise key of the update, for rules with noise
  bool applies = true;         // false: the gradient is only added to a sum, for rules that accumulate gradients
};

// The scalars with which a step updates, of two: the host may queue a step before it knows whether the device skips the
// step before it, so it prepares the step for both cases.
struct StepChoice {
  const StepScalars* scalars = nullptr;  // [0]: if the step before counted, [1]: if it was skipped
  const uint32_t* skipped = nullptr;     // LossScale::last_skipped; null: 0
  // To be called in kernels.
  [[nodiscard]] DT_ELEMENT const StepScalars& chosen() const { return scalars[skipped == nullptr ? 0 : *skipped]; }
};

// The loss scale, and whether a step counts; in device memory. Initialize `scale` and `inverse` together, and the rest
// with 0.
struct LossScale {
  float scale = 1, inverse = 1;  // scale: factor of gradients within the passes; inverse: 1 / scale
  uint32_t good_steps = 0;       // number of good steps since the scale last changed
  // Not 0: a value in a sum of gradients is not finite, so the step is skipped. A float, so that a group can sum it
  // over its ranks.
  float nonfinite = 0;
  uint64_t skipped = 0;       // number of skipped steps since the start
  uint32_t last_skipped = 0;  // 1 if the step that adjust_loss_scale has ended was skipped, otherwise 0
  // The last array whose gradient is not finite, of those that this device has searched: UpdateTensor::array plus 1; 0:
  // none. bad_array is that of the current step, and ended_bad_array that of the step that adjust_loss_scale has ended.
  uint32_t bad_array = 0, ended_bad_array = 0;
};

// The rules of update(), which changes the weights by the formulas of the rule (optim/formulas.h), bit for bit as
// optim::update does. It writes nothing if *nonfinite is not 0.
enum class Rule {
  kSgd,
  kNag,
  kOldNag,
  kSgld,
  kSignum,
  kDcasgd,
  kLbsgd,
  kAdam,
  kOldAdam,
  kAdamax,
  kAdagrad,
  kRmsprop,
  kCenteredRmsprop,
  kOldRmsprop,
  kAdadelta,
  kFtrl
};
struct Update {
  Rule rule = Rule::kSgd;
  Table<UpdateTensor> table = {};  // the chunks divide `count` elements of each tensor; bytes: update_bytes
  // The rule's clip and parameters. The other scalars vary with the tensor and the step.
  optim::Scalars scalars = {};
  double momentum = 0;
  StepChoice step = {};
  const float* nonfinite = nullptr;    // null: the update is never skipped
  const double* norm_rates = nullptr;  // result of find_norm_rates; null: the rule uses no norms
};
void update(const Update& update, cudaStream_t stream);

// The bytes that an update reads and writes in device memory. For each element: 8 for the weight, 8 for each slot, and
// the sizes of the gradient's element and of the copy's element.
inline int64_t update_bytes(std::span<const UpdateTensor> tensors) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) {
    const int64_t copy = t.copy == nullptr ? 0 : bytes_of(t.copy_type);
    const int64_t slots = std::ssize(t.state) - std::count(std::begin(t.state), std::end(t.state), nullptr);
    bytes += t.count * (8 + 8 * slots + bytes_of(t.gradient_type) + copy);
  }
  return bytes;
}

// If any gradient of the table is infinite or NaN, sets step->nonfinite to 1 and raises step->bad_array to its array.
// Never resets them. Bytes: the gradients.
void find_nonfinite(const Table<UpdateTensor>& table, LossScale* step, cudaStream_t stream);
inline int64_t gradient_bytes(std::span<const UpdateTensor> tensors) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) bytes += t.count * bytes_of(t.gradient_type);
  return bytes;
}

// Copies `kept` back to `values` if *nonfinite is not 0, to undo the changes of a skipped step. Bytes: 8 per element.
struct Restore {
  const float* kept = nullptr;
  float* values = nullptr;
  int64_t count = 0;
  const float* nonfinite = nullptr;
};
void restore_if_nonfinite(const Restore& restore, cudaStream_t stream);

// Ends a step: counts it as skipped if loss_scale->nonfinite is not 0, sets that to 0, moves bad_array to
// ended_bad_array, and changes a dynamic scale (optim/loss_scale.h). Runs in one thread.
struct AdjustLossScale {
  bool dynamic = true;
  optim::LossScaleRule rule = {};
  LossScale* loss_scale = nullptr;
};
void adjust_loss_scale(const AdjustLossScale& adjust, cudaStream_t stream);

}  // namespace dtrain::cuda
