// Which way values and gradients flow through a graph: what every backend asks about it.
#pragma once

#include <vector>

#include "graph/ids.h"

namespace dtrain::graph {

// By node: the nodes that read its output, in ascending order. One that reads it twice is there twice.
std::vector<std::vector<NodeId>> readers(const Graph& graph);

// By node: 1 if it reads a learned tensor that is not frozen, or depends on a node that does. A BatchNorm for which
// this is 0 computes as in inference: nothing before it changes, so its moving statistics stay as they are.
std::vector<char> depends_on_training(const Graph& graph, const Shapes& shapes);

// By node: 1 if backward must compute the gradient by its output, because it depends on training, and a loss depends on
// it. 0 for the images, and nodes before all others that have no parameters or frozen ones.
std::vector<char> wants_gradient(const Graph& graph, const Shapes& shapes);

}  // namespace dtrain::graph
