// Which nodes are computed together with another one: the fusions of exec/fuse.h, and the addition that a batch
// normalization does in its last pass over memory. Fusions change results only by rounding.
#pragma once

#include "exec/fuse.h"

namespace dtrain::cuda {

struct Fusions {
  static constexpr graph::NodeId kNone = exec::Fusions::kNone;
  // Indexed by node. For a BatchNorm or an Add: the ReLU that is computed with it, or kNone. For such a ReLU: the node
  // that computes it.
  std::vector<graph::NodeId> relu_after, computed_by;
  // Indexed by node. For an Add of two terms that is followed by a ReLU: the BatchNorm that computes all three nodes.
  // It is one of the terms, and no other node reads it. For such a BatchNorm: the Add.
  std::vector<graph::NodeId> norm_of, added_by;
};

// keep_all: no fusions, so that every node's output can be read.
Fusions find_fusions(const graph::Graph& graph, bool keep_all);

}  // namespace dtrain::cuda
