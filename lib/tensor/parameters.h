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
};

// A named array on its own: what checkpoints hold and servers hand out.
struct NamedArray {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

}  // namespace dtrain
