// Copies the arrays of a checkpoint into a network's weights and statistics.
#pragma once

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace dtrain::train {

// Arrays without a prefix are statistics if the network has a statistic of their name, and parameters otherwise. The
// checkpoint must have exactly the network's arrays. Arrays for images and labels, which some programs also save, are
// ignored. Code::kData lists the arrays that are missing, unknown to the network, of another shape, or duplicate, at
// most 20 of each kind; nothing is copied then.
Result<> fill_weights(const Checkpoint& checkpoint, const graph::Graph& graph, const ParameterView& view);

// Sets the gammas that the graph fixes to 1. Files of other programs may contain other values there, which have no
// effect.
void set_fixed_gammas(const graph::Graph& graph, const ParameterView& view);

}  // namespace dtrain::train
