#include "graph/graph.h"

#include <algorithm>

#include "base/overloaded.h"

namespace dtrain::graph {

std::string_view op_name(const Op& op) {
  return std::visit(Overloaded{[](const Input&) -> std::string_view { return "Input"; },
                               [](const Convolution&) -> std::string_view { return "Convolution"; },
                               [](const FullyConnected&) -> std::string_view { return "FullyConnected"; },
                               [](const BatchNorm&) -> std::string_view { return "BatchNorm"; },
                               [](const Activation&) -> std::string_view { return "Activation"; },
                               [](const Pooling&) -> std::string_view { return "Pooling"; },
                               [](const Concat&) -> std::string_view { return "Concat"; },
                               [](const Add&) -> std::string_view { return "Add"; },
                               [](const Flatten&) -> std::string_view { return "Flatten"; },
                               [](const Identity&) -> std::string_view { return "Identity"; },
                               [](const Scale&) -> std::string_view { return "Scale"; },
                               [](const SoftmaxOutput&) -> std::string_view { return "SoftmaxOutput"; }},
                    op);
}

NodeId Graph::add(std::string name, Op op, std::vector<NodeId> inputs, int device_group) {
  DT_CHECK(!name.empty(), "a node of operator {} has no name", op_name(op));
  for (const NodeId input : inputs) {
    DT_CHECK(input < nodes_.size(), "node '{}' reads node {} of {}", name, input, nodes_.size());
  }
  const bool repeated = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.name == name; });
  DT_CHECK(!repeated, "two nodes are called '{}'", name);
  nodes_.push_back({std::move(name), std::move(op), std::move(inputs), device_group, {}});
  return nodes_.size() - 1;
}

std::vector<NodeId> Graph::canonical_order() const {
  std::vector<NodeId> order;
  if (nodes_.empty()) return order;
  // Depth-first with an explicit stack, since recursion would be deep for a graph of a thousand layers.
  struct Visit {
    NodeId node;
    size_t next_input;
  };
  std::vector<bool> seen(nodes_.size(), false);
  std::vector<Visit> path = {{output(), 0}};
  seen[output()] = true;
  while (!path.empty()) {
    Visit& visit = path.back();
    const std::vector<NodeId>& inputs = nodes_[visit.node].inputs;
    if (visit.next_input == inputs.size()) {
      order.push_back(visit.node);
      path.pop_back();
      continue;
    }
    const NodeId input = inputs[visit.next_input++];
    if (seen[input]) continue;
    seen[input] = true;
    path.push_back({input, 0});
  }
  return order;
}

}  // namespace dtrain::graph
