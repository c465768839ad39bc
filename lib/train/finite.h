// Detects values that are not finite and finds the layer that they came from, for --on-nan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "exec/executor.h"
#include "graph/ids.h"
#include "tensor/parameters.h"

namespace dtrain::train {

inline constexpr std::string_view kRemedyOfNotFinite =
    "train with a lower learning rate (--lr) or with smaller inputs (--scale)";

// True if no value is infinite or NaN.
bool all_finite(std::span<const float> values);

// The limit for summands: if `terms` values are all smaller in absolute value, their sum is finite, in whatever order
// they are added. Infinity for a single term, else a power of 2.
float summand_limit(uint32_t terms);

// Returns the name of the last parameter in [begin, end) whose gradient contains a NaN or a value of at least `limit`
// (see summand_limit). This is the bad parameter that the backward pass reached first. Returns an empty string if there
// is none.
std::string bad_gradient(const ParameterView& view, size_t begin, size_t end, float limit);

// A result of the network that is not finite: the index of its head, and its values.
struct BadResult {
  size_t head = 0;
  std::span<const float> values;
};
// Returns the name of the first layer whose output is not finite, for a batch with such a result. Recomputes a few
// images around the first bad row with the reference backend. `options` must have the batch's size and the inputs that
// the executor was compiled with. Takes seconds, so it is used only for the message that ends a run.
std::string bad_layer(const graph::Graph& graph, const exec::Options& options, const ParameterView& view,
                      const exec::Batch& batch, const BadResult& result);

}  // namespace dtrain::train
