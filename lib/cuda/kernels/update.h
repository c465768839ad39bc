// The update of all weights in one launch, and the loss scale that keeps float16 gradients in range. kernels/tensor.h
// has the conventions of all kernels.
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
  bool adapts = true;  // whether norms change its rate, for rules that use them
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

// The factor by which gradients in memory are larger than the gradients of the loss; in device memory. Scales are
// powers of two, so that dividing by them is exact. Initialize `scale` and `inverse` together, and the rest with 0.
struct LossScale {
  float scale = 1, inverse = 1;
  uint32_t nonfinite = 0;   // 1: a gradient of this step is not finite, so the update is skipped
  uint32_t good_steps = 0;  // number of good steps since the scale last changed
  uint64_t skipped = 0;     // number of skipped steps since the start
};

// Updates w by the rule (optim/formulas.h), bit for bit as optim::update does. The gradient is multiplied by
// loss_scale.inverse. Nothing is written if loss_scale.nonfinite is set.
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
  Table<UpdateTensor> table = {};  // the chunks count `count` elements; bytes = update_bytes
  // The rule's clip and parameters. The other scalars vary with the tensor and the step.
  optim::Scalars scalars = {};
  double momentum = 0;
  const StepScalars* step = nullptr;
  const LossScale* loss_scale = nullptr;  // null: the scale is 1, and the update is never skipped
  const double* norm_rates = nullptr;     // result of find_norm_rates; null: the rule uses no norms
};
void update(const Update& update, cudaStream_t stream);

// Bytes: per element 8 for the weight and 8 for each slot, and the sizes of gradient and copy.
inline int64_t update_bytes(std::span<const UpdateTensor> tensors) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) {
    const int64_t copy = t.copy == nullptr ? 0 : bytes_of(t.copy_type);
    const int64_t slots = std::ssize(t.state) - std::count(std::begin(t.state), std::end(t.state), nullptr);
    bytes += t.count * (8 + 8 * slots + bytes_of(t.gradient_type) + copy);
  }
  return bytes;
}

// Sets loss_scale->nonfinite to 1 if any gradient of the table is NaN or has an absolute value of at least `limit`,
// which may be infinite; never resets it. Bytes: the gradients.
void find_nonfinite(const Table<UpdateTensor>& table, float limit, LossScale* loss_scale, cudaStream_t stream);
inline int64_t gradient_bytes(std::span<const UpdateTensor> tensors) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) bytes += t.count * bytes_of(t.gradient_type);
  return bytes;
}

// Copies `kept` back to `values` if loss_scale->nonfinite is set, to undo the changes of a skipped step. Bytes: 8 per
// element.
struct Restore {
  const float* kept = nullptr;
  float* values = nullptr;
  int64_t count = 0;
  const LossScale* loss_scale = nullptr;
};
void restore_if_nonfinite(const Restore& restore, cudaStream_t stream);

// Ends a step. A step with a nonfinite gradient counts as skipped. After such a step, a dynamic scale is halved (not
// below 1); after `growth_steps` good steps in a row it is doubled, up to scale_max. A scale that is not dynamic does
// not change. nonfinite becomes 0. Runs in one thread. Source: Micikevicius et al., "Mixed precision training",
// arXiv:1710.03740, and the automatic form in Apex.
struct LossScaleRule {
  bool dynamic = true;
  uint32_t growth_steps = 2000;
  float scale_max = 65536.0f * 256;
};
void adjust_loss_scale(const LossScaleRule& rule, LossScale* loss_scale, cudaStream_t stream);

}  // namespace dtrain::cuda
