// Memory for the learned arrays of a network: one block each for weights, gradients and statistics, in which every
// array is aligned to a cache line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/parameters.h"

namespace dtrain {

struct TensorName {
  std::string name;
  ParameterKind kind;
  Shape shape;
  ParameterRule rule = {};
};

// Allocates `count` floats, which are aligned to a cache line and have undefined values. The memory is freed together
// with its last owner.
using FloatAllocator = std::function<std::shared_ptr<float>(size_t count)>;
// Allocates on the heap; see tensor/buffer.h.
std::shared_ptr<float> allocate_floats(size_t count);

// All values are initially zero. Views remain valid if the object is moved.
class ParameterMemory {
 public:
  ParameterMemory() = default;
  // Without gradients (for inference), the spans of the gradients are empty. `allocate` may return memory that devices
  // can access directly.
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

// Returns the view without its gradients, as executors for inference expose it.
ParameterView without_gradients(ParameterView view);

}  // namespace dtrain
