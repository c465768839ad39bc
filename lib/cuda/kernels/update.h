// The update of all weights in one launch, and the scale of the loss that keeps float16 gradients in range.
// kernels/tensor.h says what holds for all kernels.
//
// What changes from step to step (rate, scales, whether a gradient overflowed) is read from the device's memory, never
// from the arguments of a launch: a captured step can be replayed as it is, and nobody waits for the host.
#pragma once

#include "cuda/kernels/tables.h"
#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// A learned tensor. Every pointer has `count` elements in one order, whichever that is (KRSC, canonical): an update
// does not care. weight is the float32 master copy; copy, if there is one, is what the network computes with, written
// along. Arrays aligned to 16 bytes are moved 4 elements at a time, others one by one.
struct UpdateTensor {
  float* weight = nullptr;
  float* momentum = nullptr;  // absent where the rule keeps none: see Update
  const void* gradient = nullptr;
  void* copy = nullptr;
  int64_t count = 0;
  double learning_rate = 1;  // multiplies the step's
  float weight_decay = 0;    // with the tensor's multiplier
  Type gradient_type = Type::kFloat32, copy_type = Type::kFloat32;
};

// In the device's memory, written by the host before each step.
struct StepScalars {
  double learning_rate = 0;  // of the schedule
  float gradient_scale = 1;  // optim::UpdateStep's: 1 / samples, times the scheme's weight
};

// In the device's memory: how much larger the gradients in memory are than the loss's. Powers of two, so that dividing
// by them is exact. Initialise `scale` and `inverse` together, the rest with 0.
struct LossScale {
  float scale = 1, inverse = 1;
  uint32_t nonfinite = 0;   // a gradient of this step is not finite: the update is left out
  uint32_t good_steps = 0;  // since the scale last changed
  uint64_t skipped = 0;     // steps, ever
};

// w <- the rule's update, with optim::update's arithmetic to the bit: g = gradient * loss_scale.inverse, then
//   g' = clip(gradient_scale * g)
//   momentum 0:  w <- (1 - lr wd) w - lr g'
//   sgd:         v <- m v - lr (g' + wd w);  w <- w + v
//   nag:         h = g' + wd w;  v <- m v + h;  w <- w - lr (h + m v)
// Nothing is written while loss_scale.nonfinite.
enum class Rule { kSgd, kNag };
struct Update {
  Rule rule = Rule::kSgd;
  Table<UpdateTensor> table = {};  // chunks of count, bytes = update_bytes
  double momentum = 0;             // 0: the tensors have no `momentum`
  double clip = 0;                 // 0: off
  const StepScalars* step = nullptr;
  const LossScale* loss_scale = nullptr;  // absent: 1, and all is finite
};
void update(const Update& update, cudaStream_t stream);

// Bytes: per element 8 for the weight, 8 more with momentum, the gradient and the copy.
inline int64_t update_bytes(std::span<const UpdateTensor> tensors) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) {
    const int64_t copy = t.copy == nullptr ? 0 : bytes_of(t.copy_type);
    bytes += t.count * (8 + (t.momentum == nullptr ? 0 : 8) + bytes_of(t.gradient_type) + copy);
  }
  return bytes;
}

// loss_scale->nonfinite becomes 1 if any gradient of the table is infinite or not a number; it is never reset here.
// Bytes: the gradients.
void find_nonfinite(const Table<UpdateTensor>& table, LossScale* loss_scale, cudaStream_t stream);
inline int64_t gradient_bytes(std::span<const UpdateTensor> tensors) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) bytes += t.count * bytes_of(t.gradient_type);
  return bytes;
}

// values <- kept, if loss_scale->nonfinite: what a step changed that is left out. Bytes: 8 per element.
struct Restore {
  const float* kept = nullptr;
  float* values = nullptr;
  int64_t count = 0;
  const LossScale* loss_scale = nullptr;
};
void restore_if_nonfinite(const Restore& restore, cudaStream_t stream);

// The end of a step: one that overflowed counts as skipped. A dynamic scale halves after it (not below 1), and doubles
// after `growth_steps` good ones in a row, up to scale_max; another one stays as it is. nonfinite becomes 0. One
// thread. Source: Micikevicius et al., "Mixed precision training", arXiv:1710.03740, and its automatic form in Apex.
struct LossScaleRule {
  bool dynamic = true;
  uint32_t growth_steps = 2000;
  float scale_max = 65536.0f * 256;
};
void adjust_loss_scale(const LossScaleRule& rule, LossScale* loss_scale, cudaStream_t stream);

}  // namespace dtrain::cuda
