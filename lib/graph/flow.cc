#include "graph/flow.h"

#include "graph/graph.h"

namespace dtrain::graph {

std::vector<std::vector<NodeId>> readers(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.nodes().size());
  for (NodeId id = 0; id < graph.nodes().size(); id++) {
    for (const NodeId input : graph.node(id).data_inputs) readers[input].push_back(id);
  }
  return readers;
}

std::vector<char> depends_on_training(const Graph& graph, const Shapes& shapes) {
  std::vector<char> depends(graph.nodes().size(), 0);
  for (const ParameterInfo& parameter : shapes.parameters) {
    if (graph.variables()[parameter.variable].is_frozen()) continue;
    for (const TensorUse& use : parameter.uses) depends[use.node] = 1;
  }
  // A single pass is enough, because a node's inputs precede it.
  for (NodeId id = 0; id < depends.size(); id++) {
    for (const NodeId input : graph.node(id).data_inputs) depends[id] |= depends[input];
  }
  return depends;
}

std::vector<char> wants_gradient(const Graph& graph, const Shapes& shapes) {
  std::vector<char> wants = depends_on_training(graph, shapes);
  std::vector<char> reaches_loss(wants.size(), 0);
  for (NodeId id = wants.size(); id-- > 0;) {
    reaches_loss[id] |= static_cast<char>(is_loss(graph.node(id).op));
    for (const NodeId input : graph.node(id).data_inputs) reaches_loss[input] |= reaches_loss[id];
    wants[id] &= reaches_loss[id];
  }
  return wants;
}

}  // namespace dtrain::graph
