// Converts symbol files of older versions of MXNet to the form of version 1.9.1, as MXNet's loader does.
#pragma once

#include "graph/symbol/symbol_file.h"

namespace dtrain::graph {

// - Operators get the names that MXNet 1.9.1 writes.
// - Before 1.9.1, multipliers and device groups may have plain names: "lr_mult" becomes "__lr_mult__", and
//   "weight_lr_mult" becomes "__lr_mult__" of the variable that the node reads as its weight.
// - Before 0.9, files lack the statistics, and before 0.9.4 their "__init__".
// Nodes whose operator dtrain does not support keep their attributes and inputs.
SymbolFile upgraded(SymbolFile file);

}  // namespace dtrain::graph
