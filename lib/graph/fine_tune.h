// Fine-tuning: a trained network gets a new last layer, and some of its layers keep their values or learn at other
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

// The network up to the output of the node `layer`, followed by a FullyConnected `fc` and a SoftmaxOutput `softmax`
// over so many classes: what MXNet's fine-tune.py makes. `layer` "auto" is the one that the last FullyConnected reads:
// flatten0 in a residual network. Code::kUsage: there is no such node, or it depends on one called fc or softmax.
Result<Graph> with_new_head(const Graph& graph, const std::string& layer, int64_t classes);

// The names of the head's learned tensors, whose values come from no other network.
std::vector<std::string> new_head_parameters();

// Applies rules of the form PATTERN=X in their order: X, from 0, multiplies the learning rate, and of several rules
// that fit the last one counts. Tensors with the rate 0 are frozen. Patterns are names of nodes or of learned tensors;
// * stands for any text, ? for any letter. A node stands for all tensors that it learns. Code::kUsage: a rule has
// another form or fits nothing, or nothing is left to train.
Result<> apply_rates(const std::vector<std::string>& rules, Graph& graph);

// Whether the whole name fits.
bool fits(std::string_view pattern, std::string_view name);

}  // namespace dtrain::graph
