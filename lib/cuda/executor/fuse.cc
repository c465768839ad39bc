#include "cuda/executor/fuse.h"

#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::cuda {

using graph::NodeId;

Fusions find_fusions(const graph::Graph& graph, bool keep_all) {
  exec::Fusions common = keep_all ? exec::no_fusions(graph) : exec::find_fusions(graph);
  const size_t count = graph.nodes().size();
  Fusions fusions{std::move(common.relu_after), std::move(common.computed_by),
                  std::vector<NodeId>(count, Fusions::kNone), std::vector<NodeId>(count, Fusions::kNone)};
  const std::vector<std::vector<NodeId>> readers = graph::readers(graph);
  for (NodeId id = 0; id < count; id++) {
    const graph::Node& node = graph.node(id);
    if (!std::holds_alternative<graph::Add>(node.op) || fusions.relu_after[id] == Fusions::kNone) continue;
    if (node.data_inputs.size() != 2) continue;
    for (const NodeId input : node.data_inputs) {
      if (readers[input].size() != 1 || !std::holds_alternative<graph::BatchNorm>(graph.node(input).op)) continue;
      fusions.norm_of[id] = input;
      fusions.added_by[input] = id;
      break;
    }
  }
  return fusions;
}

}  // namespace dtrain::cuda
