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

std::vector<char> wants_gradient(const Graph& graph, const Shapes& shapes) {
  std::vector<char> wants(graph.nodes().size(), 0);
  for (const ParameterInfo& parameter : shapes.parameters) {
    for (const TensorUse& use : parameter.uses) wants[use.node] = 1;
  }
  // A node's inputs come before it.
  for (NodeId id = 0; id < wants.size(); id++) {
    for (const NodeId input : graph.node(id).data_inputs) wants[id] |= wants[input];
  }
  std::vector<char> reaches_loss(wants.size(), 0);
  for (NodeId id = wants.size(); id-- > 0;) {
    reaches_loss[id] |= static_cast<char>(is_loss(graph.node(id).op));
    for (const NodeId input : graph.node(id).data_inputs) reaches_loss[input] |= reaches_loss[id];
    wants[id] &= reaches_loss[id];
  }
  return wants;
}

}  // namespace dtrain::graph
