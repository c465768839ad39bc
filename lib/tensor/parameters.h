// The learned tensors of a network as an executor shows them and a store moves them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace dtrain {

// One parameter in canonical layout ([filters, c/groups, kernel_h, kernel_w] and so on), in memory of the executor.
struct ParameterSpan {
  std::string name;
  Shape shape;
  std::span<float> weight;
  std::span<float> gradient;  // empty for statistics, and in an executor for inference
};

struct ParameterView {
  std::vector<ParameterSpan> parameters;  // in canonical order: the index is the key
  std::vector<ParameterSpan> statistics;  // moving means and variances, in canonical order

  // Each kind in one piece, for what is done to many arrays at once: the arrays lie in it in order, and what lies
  // between them is zero and of no meaning. Weights and gradients at the same places. Empty: they are scattered.
  std::span<float> all_weights = {}, all_gradients = {}, all_statistics = {};
};

// Where the parameters [first, end) lie in all_weights and all_gradients, with what lies between and behind them.
struct FlatInterval {
  size_t begin = 0, count = 0;
};
FlatInterval flat_interval(const ParameterView& view, size_t first, size_t end);

// A named array on its own: what checkpoints hold and servers hand out.
struct NamedArray {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

}  // namespace dtrain
