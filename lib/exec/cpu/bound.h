// What oneDNN alone allows: every primitive of a network's training step, timed by itself and warm, summed. An upper
// bound for a trainer built of these primitives; `bench train --bound` prints it beside what we reach in the same run.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "exec/executor.h"

namespace dtrain::exec::cpu {

// One primitive of the step: seconds a run. Winograd's are 0 where it does not exist or was not asked for.
struct BoundLine {
  std::string node;
  std::string what;  // "convolution backward data"
  double direct_s = 0, winograd_s = 0;
  [[nodiscard]] double best_s() const { return winograd_s > 0 && winograd_s < direct_s ? winograd_s : direct_s; }
};

struct Bound {
  std::vector<BoundLine> lines;
  [[nodiscard]] double direct_s() const;  // of a step with direct convolutions
  [[nodiscard]] double best_s() const;    // with the faster of direct and Winograd for each layer and direction
};

// Times the primitives of a training step of `graph` for options.batch_size, image and threads: convolutions and inner
// products in all three directions, poolings, activations and batch norms (with the ReLU after them fused in) forward
// and backward, sums of branches and of gradients, concatenations. Left out, in favour of the bound: reorders, copies
// of slices, softmax, the optimizer. Takes some ten times as long as a step.
Result<Bound> measure_bound(const graph::Graph& graph, const Options& options);

}  // namespace dtrain::exec::cpu
