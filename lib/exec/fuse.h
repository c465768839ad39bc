// Decides which nodes of a graph are computed together. Fusion changes results only by rounding.
#pragma once

#include <vector>

#include "graph/ids.h"

namespace dtrain::exec {

struct Fusions {
  static constexpr graph::NodeId kNone = static_cast<graph::NodeId>(-1);
  // For each BatchNorm, Add or, in inference, Convolution node: the ReLU that is computed in the same pass over memory,
  // or kNone. That ReLU is the only reader of the node's output, which is never stored.
  std::vector<graph::NodeId> relu_after;
  // For each ReLU that is computed together with another node: that other node.
  std::vector<graph::NodeId> computed_by;
};

// keep_all: no fusions, so that every node's output can be read (Options::keep_all). `with_convolutions`: for backends
// that can compute a convolution and a ReLU in one pass. Only allowed for inference, because the backward pass reads
// the convolution's own output.
Fusions find_fusions(const graph::Graph& graph, bool keep_all, bool with_convolutions = false);

}  // namespace dtrain::exec
