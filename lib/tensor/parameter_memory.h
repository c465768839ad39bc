// Memory for the learned tensors of a network: each kind in one piece, every tensor at a cache line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/parameters.h"

namespace dtrain {

struct TensorName {
  std::string name;
  Shape shape;
  ParameterRule rule = {};
};

// Where numbers are to lie: `count` of them at a cache line, of any content, given back with the last owner.
using FloatAllocator = std::function<std::shared_ptr<float>(size_t count)>;
// The heap's, by tensor/buffer.h.
std::shared_ptr<float> allocate_floats(size_t count);

// All zero at first. Views stay good when it moves.
class ParameterMemory {
 public:
  ParameterMemory() = default;
  // Without gradients (for inference) the gradients' spans are empty. `allocate`: for memory that devices copy from and
  // to by themselves.
  ParameterMemory(const std::vector<TensorName>& parameters, const std::vector<TensorName>& statistics,
                  bool gradients = true, const FloatAllocator& allocate = allocate_floats);
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;
  ParameterMemory(ParameterMemory&&) = default;
  ParameterMemory& operator=(ParameterMemory&&) = default;
  ~ParameterMemory() = default;
  [[nodiscard]] const ParameterView& view() const { return view_; }

 private:
  std::shared_ptr<float> weights_, gradients_, statistics_;
  ParameterView view_;
};

// The same weights and statistics: what an executor for inference shows.
ParameterView without_gradients(ParameterView view);

}  // namespace dtrain
