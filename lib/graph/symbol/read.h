// Makes a graph of an MXNet symbol file.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/symbol/symbol_file.h"

namespace dtrain::graph {

// The file may be of any version from 0.7 on. What a variable is follows from the argument that reads it, never from
// its name: one that is read as a weight is learned, one that is read as data is the network's input. The graph takes
// over the file's texts, so that symbol_of() gives the same file again, in the form of MXNet 1.9.1.
//
// Code::kUsage, naming the node and its operator: an operator, an attribute or a way to connect them that dtrain does
// not have. Code::kData: a file that no MXNet could use, for example with a learned tensor that is also a statistic.
Result<Graph> read_symbol(SymbolFile file);

// The shape of the images, without the batch, if the file states it ("__shape__" of the input) and it is complete.
std::optional<Shape> stated_image(const Graph& graph);

}  // namespace dtrain::graph
