// Weights, gradients and statistics in canonical layout: each kind in one piece of memory, every tensor at a cache
// line.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "tensor/buffer.h"
#include "tensor/parameters.h"

namespace dtrain::exec::cpu {

class ParameterStore {
 public:
  // All zero at first. Without gradients (an executor for inference) the gradients' spans are empty.
  ParameterStore(const graph::Shapes& shapes, bool gradients);

  [[nodiscard]] const ParameterView& view() const { return view_; }
  // The same weights and statistics without gradients: what an executor for inference shows.
  [[nodiscard]] ParameterView view_for_inference() const;

  struct Found {
    size_t index;  // among the parameters, or among the statistics
    const ParameterSpan* span;
  };
  // The tensor of that node and role, if the node has one.
  [[nodiscard]] std::optional<Found> find(graph::NodeId node, graph::ParameterInfo::Role role) const;
  // Whether an executor for `shapes` can use these tensors: same names and shapes in the same order.
  [[nodiscard]] bool fits(const graph::Shapes& shapes) const;

 private:
  std::vector<graph::ParameterInfo> parameters_, statistics_;
  Buffer<float> weights_, gradients_, statistics_memory_;
  ParameterView view_;
};

}  // namespace dtrain::exec::cpu
