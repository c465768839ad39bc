// Is a backend right? One batch, forward and backward, each node compared with the reference in float64: what
// `--check reference` does.
//
// The reference computes each node from the inputs, and each gradient from the gradients, that the tested executor
// itself came to, so that errors do not add up on the way through the network: a node that differs has computed
// something else itself. A maximum or a relu that rounding decides the other way is no difference either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"

namespace dtrain::exec {

// One tensor of a node, compared.
struct Comparison {
  std::string node;
  std::string_view op;   // "Convolution"
  std::string what;      // "output", "gradient by its output", "gradient of conv0_weight", "conv0_moving_mean"
  double error = 0;      // normalised: rounding.h; infinite where the tested executor shows no tensor
  double tolerance = 0;  // the largest error that is taken for rounding
  [[nodiscard]] bool agrees() const { return error <= tolerance; }  // a NaN does not
  [[nodiscard]] std::string text() const;
};

struct CheckReport {
  size_t compared = 0;                  // tensors
  Comparison worst;                     // the largest error by its tolerance
  std::vector<Comparison> differences;  // in the order in which they are computed: the first is where to look
  [[nodiscard]] bool agrees() const { return differences.empty(); }
  // For the user: that all agree, or the first node that differs and how many more do.
  [[nodiscard]] std::string text() const;
};

struct CheckOptions {
  // 1: what float32 explains. 0: equal bits, for integers. Convolutions by Winograd get ten times as much
  // (performance.md 3.2) if options.winograd is on.
  double tolerance_factor = 1;
};

// `tested` was compiled from `graph` with `options` (training, keep_all); its parameters are as the caller wants them,
// and its moving statistics and gradients change as in any step. Fails as forward and backward do.
Result<CheckReport> check_against_reference(const graph::Graph& graph, const Options& options, Executor& tested,
                                            const Batch& batch, const CheckOptions& check = {});

}  // namespace dtrain::exec
