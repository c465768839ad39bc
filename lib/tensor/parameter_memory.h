// Memory for the learned tensors of a network: one block for each kind, with every tensor aligned to a cache line.
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

// Allocates `count` floats, aligned to a cache line and with undefined contents. The memory is freed with its last
// owner.
using FloatAllocator = std::function<std::shared_ptr<float>(size_t count)>;
// Allocates on the heap; see tensor/buffer.h.
std::shared_ptr<float> allocate_floats(size_t count);

// All values are initially zero. Views stay valid when the object is moved.
class ParameterMemory {
 public:
  ParameterMemory() = default;
  // Without gradients (for inference) the spans of the gradients are empty. `allocate` can provide memory that devices
  // access directly.
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

// The view without its gradients, as an executor for inference exposes it.
ParameterView without_gradients(ParameterView view);

}  // namespace dtrain
