// Copies the arrays of a checkpoint into a network's weights and statistics.
#pragma once

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace dtrain::train {

// Arrays without a prefix are statistics if the network has a statistic of their name, and parameters otherwise. The
// checkpoint must have exactly the network's arrays; those of its images and labels, which some programs save too, do
// not count. Code::kData: lists the arrays that are missing, that the network does not have, that have another shape,
// or that are there twice, at most 20 of each kind; nothing is copied then.
Result<> fill_weights(const Checkpoint& checkpoint, const graph::Graph& graph, const ParameterView& view);

// Sets the gammas that the graph fixes to 1. Files of other programs may have other numbers there, which have no
// effect.
void set_fixed_gammas(const graph::Graph& graph, const ParameterView& view);

}  // namespace dtrain::train
