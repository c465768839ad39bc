// Numbers that are not numbers any more, and where they came from. --on-nan.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "tensor/parameters.h"

namespace dtrain::train {

// Neither infinite nor not-a-number.
bool all_finite(std::span<const float> values);

// The last parameter of [begin, end) whose gradient is not finite: the one that backward came to first. "" if all are.
std::string bad_gradient(const ParameterView& view, size_t begin, size_t end);

// The first layer whose output is not finite for (part of) a batch whose probabilities are not: computed again in plain
// loops for a few images around the first bad row. `options`: image and normalisation as the executor has them. Takes
// seconds; for the message that ends a run.
std::string bad_layer(const graph::Graph& graph, const exec::Options& options, const ParameterView& view,
                      const exec::Batch& batch, std::span<const float> probabilities);

}  // namespace dtrain::train
