// Copies parts of a graph into a new one, with the names, variables and spellings that they have.
#pragma once

#include <map>
#include <utility>

#include "graph/graph.h"

namespace dtrain::graph {

class Copy {
 public:
  // `from` must outlive the object.
  explicit Copy(const Graph& from) : from_(from) {}

  // Copies the node and those that it depends on; returns its new number.
  NodeId up_to(NodeId last);
  // Copies one node, whose inputs have been copied.
  NodeId node(NodeId id);
  // Copies the node with another operator, which may have further arguments: their variables are made as for a new
  // node.
  NodeId node_as(NodeId id, const Op& op);
  // From now on, what reads the output of `id` reads that of `copied`.
  void stands_for(NodeId id, NodeId copied);
  // What a tensor has become. Variables are copied with their first reader.
  TensorId tensor(TensorId input);

  // The node that computes what the node computed.
  NodeId copied(NodeId id) { return to_.edge(tensor(from_.tensor(Edge{id})))->node; }

  Graph take() { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::map<TensorId, TensorId> tensors_;
};

}  // namespace dtrain::graph
