// How values and gradients flow through a graph: the facts that all backends need.
#pragma once

#include <vector>

#include "graph/ids.h"

namespace dtrain::graph {

// For each node, the nodes that read its output, in ascending order. A node that reads it twice is listed twice.
std::vector<std::vector<NodeId>> readers(const Graph& graph);

// For each node, 1 if it reads a learned tensor that is not frozen, or depends on such a node, else 0. A BatchNorm with
// 0 computes as in inference: nothing before it changes, so its moving statistics stay as they are.
std::vector<char> depends_on_training(const Graph& graph, const Shapes& shapes);

// For each node, 1 if the backward pass must compute the gradient with respect to its output, because the output
// depends on training and a loss depends on the output. 0 for the images, and for the first nodes up to the first
// parameter that is not frozen.
std::vector<char> wants_gradient(const Graph& graph, const Shapes& shapes);

}  // namespace dtrain::graph
