// Memory for the learned tensors of a network: each kind in one piece, every tensor at a cache line.
#pragma once

#include <string>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/parameters.h"

namespace dtrain {

struct TensorName {
  std::string name;
  Shape shape;
};

// All zero at first. Views stay good when it moves.
class ParameterMemory {
 public:
  ParameterMemory() = default;
  // Without gradients (for inference) the gradients' spans are empty.
  ParameterMemory(const std::vector<TensorName>& parameters, const std::vector<TensorName>& statistics,
                  bool gradients = true);
  [[nodiscard]] const ParameterView& view() const { return view_; }

 private:
  Buffer<float> weights_, gradients_, statistics_;
  ParameterView view_;
};

// The same weights and statistics: what an executor for inference shows.
ParameterView without_gradients(ParameterView view);

}  // namespace dtrain
