// Writes a graph as an MXNet symbol file that MXNet 1.9.1 can load. See docs/formats.md, "Symbol files".
//
// Where MXNet 1.x has no exact equivalent, the closest one is written. The pooling rounding of MXNet 0.7 becomes
// `full`, which gives the same sizes if the kernel is at least as large as the stride (true for all networks here). An
// average that always divides by the kernel's area becomes the default average, which is the same if no window extends
// beyond the padded map (also true). The weights of a fixed convolution are stored in the .params file; the symbol file
// cannot describe how they are initialized.
#pragma once

#include <string>

#include "graph/graph.h"
#include "graph/symbol/symbol_file.h"

namespace dtrain::graph {

// Nodes and variables that no head needs are omitted.
SymbolFile symbol_of(const Graph& graph);

// The text of the file.
std::string symbol_text(const Graph& graph);

}  // namespace dtrain::graph
