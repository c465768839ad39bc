// Detects values that are not finite and finds the layer that they came from, for --on-nan.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "tensor/parameters.h"

namespace dtrain::train {

// True if no value is infinite or NaN.
bool all_finite(std::span<const float> values);

// Returns the name of the last parameter in [begin, end) whose gradient is not finite: the one that the backward pass
// reached first. Returns "" if all gradients are finite.
std::string bad_gradient(const ParameterView& view, size_t begin, size_t end);

// Returns the name of the first layer whose output is not finite, for a batch whose probabilities are not all finite.
// Recomputes a few images around the first bad row with the reference backend. `options` must have the image shape and
// the normalization that the executor was compiled with. Takes seconds; used for the message that ends a run.
std::string bad_layer(const graph::Graph& graph, const exec::Options& options, const ParameterView& view,
                      const exec::Batch& batch, std::span<const float> probabilities);

}  // namespace dtrain::train
