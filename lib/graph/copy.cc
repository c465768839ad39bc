#include "graph/copy.h"

#include <set>

namespace dtrain::graph {

NodeId Copy::up_to(NodeId last) {
  std::set<NodeId> needed = {last};
  for (NodeId id = last + 1; id-- > 0;) {
    if (!needed.contains(id)) continue;
    const std::vector<NodeId>& inputs = from_.node(id).data_inputs;
    needed.insert(inputs.begin(), inputs.end());
  }
  NodeId copied = 0;
  for (const NodeId id : needed) copied = node(id);  // inputs precede the nodes that read them
  return copied;
}

NodeId Copy::node(NodeId id) {
  const NodeId copied = node_as(id, from_.node(id).op);
  to_.set_spelling(copied, from_.node(id).spelling);
  return copied;
}

NodeId Copy::node_as(NodeId id, const Op& op) {
  const Node& node = from_.node(id);
  std::vector<TensorId> inputs;
  for (const TensorId input : node.inputs) inputs.push_back(tensor(input));
  const NodeId copied = to_.add_reader(node.name, op, std::move(inputs), node.context_group);
  stands_for(id, copied);
  return copied;
}

void Copy::stands_for(NodeId id, NodeId copied) {
  tensors_[from_.tensor(Edge{id})] = to_.tensor(Edge{copied});
}

TensorId Copy::tensor(TensorId input) {
  const auto found = tensors_.find(input);
  if (found != tensors_.end()) return found->second;
  const TensorId made = to_.add_variable(from_.variables()[*from_.variable(input)]);
  tensors_.emplace(input, made);
  return made;
}

}  // namespace dtrain::graph
