// Fine-tuning: a trained network gets a new last layer, and some of its layers keep their values or learn at different
// rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace dtrain::graph {

// The names of the nodes of a new head.
inline constexpr const char* kNewLayer = "fc";
inline constexpr const char* kNewLoss = "softmax";

// Returns the network up to the output of the node `layer`, followed by a FullyConnected `fc` and a SoftmaxOutput
// `softmax` over `classes` classes, as in MXNet's fine-tune.py. If `layer` is "auto", it is the node that the last
// FullyConnected reads: flatten0 in a residual network. Code::kUsage if there is no such node, or if it depends on a
// node called fc or softmax.
Result<Graph> with_new_head(const Graph& graph, const std::string& layer, int64_t classes);

// The names of the head's learned tensors, whose values do not come from another network.
std::vector<std::string> new_head_parameters();

// Applies rules of the form PATTERN=X in their order: X, at least 0, multiplies the learning rate. If several rules
// match a tensor, the last one wins. Tensors with the rate 0 are frozen. Patterns are names of nodes or of learned
// tensors, in which * matches any text and ? any character. The name of a node stands for all tensors that the node
// learns. Code::kUsage if a rule is malformed or matches nothing, or if nothing is left to train.
Result<> apply_rates(const std::vector<std::string>& rules, Graph& graph);

// Whether the pattern matches the whole name.
bool fits(std::string_view pattern, std::string_view name);

}  // namespace dtrain::graph
