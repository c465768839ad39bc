// Which nodes are computed together with another one: those of exec/fuse.h, and the sum that a batch norm's last pass
// over memory adds in. Fusions change no result beyond rounding.
#pragma once

#include "exec/fuse.h"

namespace dtrain::cuda {

struct Fusions {
  static constexpr graph::NodeId kNone = exec::Fusions::kNone;
  // By node, for a BatchNorm or an Add: the ReLU that is computed with it, or kNone; and for such a ReLU, the node.
  std::vector<graph::NodeId> relu_after, computed_by;
  // By node, for an Add of two terms with a ReLU after it: the BatchNorm that computes all three. It is one of the
  // terms and nobody else reads it. For such a BatchNorm, the Add.
  std::vector<graph::NodeId> norm_of, added_by;
};

// keep_all: none at all, so that every node's output can be read.
Fusions find_fusions(const graph::Graph& graph, bool keep_all);

}  // namespace dtrain::cuda
