// The identifiers of a graph's parts, for headers that only pass a graph on or refer to its nodes. Such headers include
// this file instead of graph/graph.h, so that a change of the operators does not rebuild everything that includes them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace dtrain::graph {

class Graph;
struct Shapes;

using NodeId = size_t;      // the node's position in Graph::nodes()
using VariableId = size_t;  // the variable's position in Graph::variables()

// A value of a graph: a variable or an output of a node. It is a separate type, so that a node cannot be mistaken for
// its output. `index` counts all values of the graph from 0, so it is the index of arrays with one element per value.
struct TensorId {
  uint32_t index = 0;
  auto operator<=>(const TensorId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};

// One output of a node.
struct Edge {
  NodeId node = 0;
  uint32_t output = 0;
  auto operator<=>(const Edge&) const = default;
};

}  // namespace dtrain::graph
