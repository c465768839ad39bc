// Writes a graph as MXNet's `prefix-symbol.json`, so that MXNet can load it. See docs/formats.md, "Symbol files".
//
// Where MXNet 1.x has no exact equivalent, the nearest one is written. MXNet 0.7's pooling rounding becomes `full`,
// which gives the same sizes if the kernel is at least as large as the stride (true of all networks here). An average
// that always divides by the kernel's area becomes the default average, which is the same if no window extends beyond
// the padded map (also true). The weights of a fixed convolution are stored in the .params file; the symbol file cannot
// say how they are initialized.
#pragma once

#include <string>

#include "graph/graph.h"

namespace dtrain::graph {

// The text, with the same line breaks and indentation as MXNet's.
std::string symbol_json(const Graph& graph);

}  // namespace dtrain::graph
