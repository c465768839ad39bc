#include "cuda/executor/fuse.h"

#include <algorithm>

#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

using Readers = std::vector<std::vector<NodeId>>;

template <class Op>
bool is_read_once(const graph::Graph& graph, const Readers& readers, NodeId id) {
  return readers[id].size() == 1 && std::holds_alternative<Op>(graph.node(id).op);
}

void find_norm(const graph::Graph& graph, const Readers& readers, NodeId add, Fusions& fusions) {
  for (const NodeId input : graph.node(add).data_inputs) {
    if (!is_read_once<graph::BatchNorm>(graph, readers, input)) continue;
    fusions.norm_of[add] = input;
    fusions.added_by[input] = add;
    return;
  }
}

// If a Convolution can compute the Add `add` too, enters both in `fusions`. `order`: the place of each node in the
// canonical order. An Add that a Concat reads stays separate: it can write a slice of the Concat's memory, which a
// convolution does not do well.
void find_convolution(const graph::Graph& graph, const Readers& readers, const std::vector<size_t>& order, NodeId add,
                      Fusions& fusions) {
  const std::vector<NodeId>& inputs = graph.node(add).data_inputs;
  const NodeId later = order[inputs[0]] < order[inputs[1]] ? inputs[1] : inputs[0];
  const bool in_concat = std::ranges::any_of(
      readers[add], [&](NodeId id) { return std::holds_alternative<graph::Concat>(graph.node(id).op); });
  if (in_concat || inputs[0] == inputs[1] || !is_read_once<graph::Convolution>(graph, readers, later)) return;
  fusions.sum_of[add] = later;
  fusions.summed_by[later] = add;
}

}  // namespace

Fusions find_fusions(const graph::Graph& graph, bool keep_all) {
  const std::vector<NodeId> none(graph.nodes().size(), Fusions::kNone);
  Fusions fusions{exec::find_fusions(graph, keep_all), none, none, none, none};
  if (keep_all) return fusions;
  const Readers readers = graph::readers(graph);
  std::vector<size_t> order(none.size());
  const std::vector<NodeId> canonical = graph.canonical_order();
  for (size_t i = 0; i < canonical.size(); i++) order[canonical[i]] = i;
  for (NodeId id = 0; id < none.size(); id++) {
    const graph::Node& node = graph.node(id);
    if (!std::holds_alternative<graph::Add>(node.op) || node.data_inputs.size() != 2) continue;
    if (fusions.relu_after[id] != Fusions::kNone) {
      find_norm(graph, readers, id, fusions);
    } else {
      find_convolution(graph, readers, order, id, fusions);
    }
  }
  return fusions;
}

}  // namespace dtrain::cuda
