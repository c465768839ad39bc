// Copies parts of a graph into a new one, and keeps names, variables and spellings.
#pragma once

#include <map>
#include <utility>

#include "graph/graph.h"

namespace dtrain::graph {

class Copy {
 public:
  // `from` must outlive the object.
  explicit Copy(const Graph& from) : from_(from) {}

  // Copies the node and all nodes that it depends on. Returns the node's new number.
  NodeId up_to(NodeId last);
  // Copies one node, whose inputs have already been copied.
  NodeId node(NodeId id);
  // Copies the node with another operator, which may have more arguments. For the additional arguments, variables are
  // made as for a new node.
  NodeId node_as(NodeId id, const Op& op);
  // From now on, copied nodes that read the output of `id` read the output of `copied` instead.
  void stands_for(NodeId id, NodeId copied);
  // The tensor into which a tensor was copied. Variables are copied with their first reader.
  TensorId tensor(TensorId input);

  // The node of the copy that computes the output of node `id`.
  NodeId copied(NodeId id) { return to_.edge(tensor(from_.tensor(Edge{id})))->node; }

  Graph take() { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::map<TensorId, TensorId> tensors_;
};

}  // namespace dtrain::graph
