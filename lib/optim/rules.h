// The rules of all optimizers: which state each keeps, and the loop that applies it. Part of optim/optimizer.h, which is
// what other rooms use. See docs/arithmetic.md, "Optimizers", for the formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dtrain::optim {

// The scalars of the formulas, each rounded to float32 once.
struct Scalars {
  float learning_rate;
  float weight_decay;
  float momentum;
  float gradient_scale;
  float clip;         // 0: off
  double exact_rate;  // the learning rate before it is rounded
  uint64_t updates;   // of the array, this one included
};

// Updates n weights. `state` has a pointer to n values for each slot of the rule.
using Loop = void (*)(const Scalars& scalars, size_t n, float* weight, const float* gradient, float* const* state);

struct Rule {
  std::string_view name;
  std::vector<std::string_view> slots;
  // True: --mom is the rule's momentum, and without momentum it has no slots.
  bool takes_momentum;
  Loop loop;
  bool counts_updates = false;  // Scalars::updates matters
};

// g if it is within [-clip, clip], else the nearer end. A NaN stays a NaN, since both comparisons are false.
inline float cut(float g, float clip) {
  return g > clip ? clip : (g < -clip ? -clip : g);
}

// The rules whose step does not only depend on the gradient and a momentum.
std::vector<Rule> adaptive_rules();

}  // namespace dtrain::optim
