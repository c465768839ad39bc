#include "exec/fuse.h"

#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::exec {

namespace {

bool is_relu(const graph::Op& op) {
  const auto* activation = std::get_if<graph::Activation>(&op);
  return activation != nullptr && activation->kind == graph::Activation::Kind::kRelu;
}

bool takes_relu(const graph::Op& op, bool with_convolutions) {
  if (with_convolutions && std::holds_alternative<graph::Convolution>(op)) return true;
  return std::holds_alternative<graph::BatchNorm>(op) || std::holds_alternative<graph::Add>(op);
}

}  // namespace

Fusions find_fusions(const graph::Graph& graph, bool keep_all, bool with_convolutions) {
  const std::vector<graph::NodeId> none(graph.nodes().size(), Fusions::kNone);
  Fusions fusions{none, none};
  if (keep_all) return fusions;
  const std::vector<std::vector<graph::NodeId>> readers = graph::readers(graph);
  for (graph::NodeId id = 0; id < graph.nodes().size(); id++) {
    if (!is_relu(graph.node(id).op)) continue;
    const graph::NodeId producer = graph.node(id).data_inputs[0];
    if (readers[producer].size() != 1 || !takes_relu(graph.node(producer).op, with_convolutions)) continue;
    fusions.relu_after[producer] = id;
    fusions.computed_by[id] = producer;
  }
  return fusions;
}

}  // namespace dtrain::exec
