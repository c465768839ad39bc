// Which way values and gradients flow through a graph: what every backend asks about it.
#pragma once

#include <vector>

#include "graph/ids.h"

namespace dtrain::graph {

// By node: the nodes that read its output, in ascending order. One that reads it twice is there twice.
std::vector<std::vector<NodeId>> readers(const Graph& graph);

// By node: 1 if backward must compute the gradient by its output, because it has parameters or depends on a node that
// has, and a loss depends on it. 0 for the images and nodes without parameters before all others.
std::vector<char> wants_gradient(const Graph& graph, const Shapes& shapes);

}  // namespace dtrain::graph
