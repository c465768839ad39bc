// `prefix-symbol.json`: a graph as MXNet writes it, so that MXNet loads it (formats.md section 6).
//
// What MXNet 1.x has no word for is written as the nearest that it has: a pooling that rounds as 0.7 did as `full`,
// which is the same wherever the kernel is at least the stride (all networks here); an average that always divides by
// the kernel's cells as the usual one, the same where no window reaches over the padded map (likewise). The weights of
// a fixed convolution are in the .params file, and their rule in dtrain alone.
#pragma once

#include <string>

#include "graph/graph.h"

namespace dtrain::graph {

// The text, in MXNet's own layout of lines and blanks (formats.md 6.2).
std::string symbol_json(const Graph& graph);

}  // namespace dtrain::graph
