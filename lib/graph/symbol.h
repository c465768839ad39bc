// `prefix-symbol.json`: a graph as MXNet writes it, so that MXNet loads it (formats.md section 6).
#pragma once

#include <string>

#include "graph/graph.h"

namespace dtrain::graph {

// The text, in MXNet's own layout of lines and blanks (formats.md 6.2).
std::string symbol_json(const Graph& graph);

}  // namespace dtrain::graph
