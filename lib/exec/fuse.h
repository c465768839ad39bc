// Which nodes of a graph are computed together with another one. Fusions change no result beyond rounding.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace dtrain::exec {

struct Fusions {
  static constexpr graph::NodeId kNone = static_cast<graph::NodeId>(-1);
  // By node, for a BatchNorm or an Add: the ReLU that is computed in the same pass over memory, or kNone. It is the
  // only reader of the node's output, which therefore never exists in memory.
  std::vector<graph::NodeId> relu_after;
  // By node, for such a ReLU: the node that computes it.
  std::vector<graph::NodeId> computed_by;
};

Fusions find_fusions(const graph::Graph& graph);
// No fusions at all: every node's output can be read (Options::keep_all).
Fusions no_fusions(const graph::Graph& graph);

}  // namespace dtrain::exec
