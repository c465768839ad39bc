// The numbers of a graph's parts, for headers that only pass a graph on or refer to its nodes. Such headers include this
// file instead of graph/graph.h, so that a change of the operators does not rebuild everything that includes them.
#pragma once

#include <cstddef>

namespace dtrain::graph {

class Graph;
struct Shapes;

using NodeId = size_t;  // the node's position in Graph::nodes()

}  // namespace dtrain::graph
