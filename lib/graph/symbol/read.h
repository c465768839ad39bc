// Converts an MXNet symbol file to a graph.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/symbol/symbol_file.h"

namespace dtrain::graph {

// The file may be of any version from 0.7 on. The role of a variable follows from the argument that reads it, never
// from its name: a variable that is read as a weight is learned, and a variable that is read as data is an input of the
// network. The graph keeps the file's texts, so that symbol_of() yields the same file again, in the form of MXNet
// 1.9.1.
//
// Code::kUsage, naming the node and its operator, if dtrain does not support an operator, an attribute or a connection.
// Code::kData if no version of MXNet could use the file, for example because a learned tensor is also a statistic.
Result<Graph> read_symbol(SymbolFile file);

// The shape of the images, without the batch, if the file states a complete shape ("__shape__" of the input).
std::optional<Shape> stated_image(const Graph& graph);

}  // namespace dtrain::graph
