// The speed that oneDNN alone allows: every primitive of a network's training step is timed separately, with warm
// caches, and the times are summed. No trainer that is built from these primitives can be faster. `bench train --bound`
// prints this bound next to the speed that the same run achieves.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "exec/executor.h"

namespace dtrain::exec::cpu {

// One primitive of the step, in seconds per run. winograd_s is 0 if Winograd does not apply or oneDNN lacks it.
struct BoundLine {
  std::string node;
  std::string what;  // the operation, for example "convolution backward data"
  double direct_s = 0, winograd_s = 0;
  [[nodiscard]] double best_s() const { return winograd_s > 0 && winograd_s < direct_s ? winograd_s : direct_s; }
};

struct Bound {
  std::vector<BoundLine> lines;
  [[nodiscard]] double direct_s() const;  // time of a step with direct convolutions
  // Time of a step with the faster of direct and Winograd convolution for each layer and direction.
  [[nodiscard]] double best_s() const;
};

// Times the primitives of a training step of `graph` with the batch size, images and threads of `options`: convolutions
// and inner products in all three directions; poolings, activations and batch normalizations (fused with a following
// ReLU) forward and backward; sums of branches and of gradients; concatenations. Reorders, copies of slices, softmax
// and the optimizer are omitted, which makes the bound more generous. Takes about ten times as long as a step.
Result<Bound> measure_bound(const graph::Graph& graph, const Options& options);

}  // namespace dtrain::exec::cpu
