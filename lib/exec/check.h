// Checks a backend against the reference, as `--check reference` does: runs one batch forward and backward and compares
// every node with the reference in float64.
//
// The reference computes each node from the inputs, and each gradient from the gradients, that the tested executor
// produced. So errors do not accumulate through the network, and a node that differs is itself wrong. A maximum or a
// ReLU that rounding decides differently is not reported as a difference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"

namespace dtrain::exec {

// The comparison of one tensor of a node.
struct Comparison {
  std::string node;
  std::string_view op;  // the operator of the node, for example "Convolution"
  // The tensor: "output", "gradient with respect to its output", "gradient of conv0_weight", "conv0_moving_mean".
  std::string what;
  double error = 0;      // normalized error (rounding.h); infinite if the tested executor does not expose the tensor
  double tolerance = 0;  // the largest error that rounding explains
  // Whether the tensors agree; false also if the error is a NaN.
  [[nodiscard]] bool agrees() const { return error <= tolerance; }
  [[nodiscard]] std::string text() const;
};

struct CheckReport {
  size_t compared = 0;  // number of tensors that were compared
  Comparison worst;     // the comparison with the largest error relative to its tolerance
  // Comparisons that do not agree, in order of computation, so the first one shows where to look.
  std::vector<Comparison> differences;
  [[nodiscard]] bool agrees() const { return differences.empty(); }
  // For the user: states that all tensors agree, or names the first node that differs and counts the others.
  [[nodiscard]] std::string text() const;
};

struct CheckOptions {
  // The tolerance is multiplied by this factor. 1: the errors that the rounding of float32 explains are accepted. 0:
  // the bits must be equal, for tests with integers. Convolutions that may use Winograd (3x3, stride 1,
  // options.winograd) get ten times the tolerance.
  double tolerance_factor = 1;
};

// `tested` must be compiled from `graph` with `options` (training, keep_all) and have the parameters with which to
// check. Its moving statistics and gradients change as in any step. Errors: see Executor::forward and backward.
Result<CheckReport> check_against_reference(const graph::Graph& graph, const Options& options, Executor& tested,
                                            const Batch& batch, const CheckOptions& check = {});

}  // namespace dtrain::exec
