// Weights, gradients and statistics in canonical layout, which can be found by node.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "exec/executor.h"
#include "graph/graph.h"
#include "tensor/parameter_memory.h"

namespace dtrain::exec {

class ParameterStore {
 public:
  // Allocates the tensors with parameter_memory() of contract.h.
  ParameterStore(const graph::Shapes& shapes, Options::Purpose purpose,
                 const FloatAllocator& allocate = allocate_floats);

  [[nodiscard]] const ParameterView& view() const { return memory_.view(); }

  struct Found {
    bool learned;  // whether the tensor is a parameter; otherwise it is a statistic
    size_t index;  // index of the tensor among the parameters, or among the statistics
    const ParameterSpan* span;
  };
  // The tensor that the node reads as this argument, for example graph::Convolution::kBias; nullopt if it has no such
  // argument.
  [[nodiscard]] std::optional<Found> find(graph::NodeId node, size_t argument) const;
  // Whether an executor for `shapes` can use these tensors, which requires the same names and shapes in the same order.
  [[nodiscard]] bool fits(const graph::Shapes& shapes) const;

 private:
  // The location of a node's argument.
  struct Place {
    graph::NodeId node;
    size_t argument;
    bool learned;
    size_t index;
    [[nodiscard]] std::pair<graph::NodeId, size_t> key() const { return {node, argument}; }
  };

  std::vector<graph::ParameterInfo> parameters_, statistics_;
  ParameterMemory memory_;
  std::vector<Place> places_;  // the location of each node's arguments, sorted by node and argument
};

}  // namespace dtrain::exec
