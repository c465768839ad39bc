// Which nodes are computed together with another one: the fusions of exec/fuse.h, and the addition that a batch
// normalization does in its last pass over memory, or a convolution before it stores its result. Fusions change results
// only by rounding.
#pragma once

#include "exec/fuse.h"

namespace dtrain::cuda {

struct Fusions : exec::Fusions {
  // Indexed by node. norm_of, for an Add of two terms that is followed by a ReLU: the BatchNorm that computes all three
  // nodes, or kNone. This BatchNorm is one of the terms, and no other node reads it. added_by, for that BatchNorm: the
  // Add.
  std::vector<graph::NodeId> norm_of, added_by;
  // Indexed by node. sum_of, for an Add of two terms without a ReLU after it: the Convolution that adds the other term
  // to its result, or kNone. No other node reads this Convolution, and it comes after the other term. summed_by, for
  // that Convolution: the Add.
  std::vector<graph::NodeId> sum_of, summed_by;
};

// keep_all: no fusions, so that every node's output can be read.
Fusions find_fusions(const graph::Graph& graph, bool keep_all);

}  // namespace dtrain::cuda
