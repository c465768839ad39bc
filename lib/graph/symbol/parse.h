// Reads the text of an MXNet symbol file of any version. The file may come from an untrusted source: whatever it
// contains, reading it takes memory and time in proportion to its size, and yields a SymbolFile or a single error.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.h"
#include "graph/symbol/symbol_file.h"

namespace dtrain::graph {

// Limits on a symbol file. For comparison: the largest network of MXNet's examples has 8,400 nodes and 2.2 MB.
struct SymbolLimits {
  size_t bytes = size_t{16} << 20;
  size_t nodes = 65536;
  // Maximum number of inputs of one node; all nodes together may have 16 times the limit of nodes.
  size_t inputs = 4096;
  // Maximum number of attributes of one node; all nodes together may have 4 times the limit of nodes.
  size_t attributes = 64;
  size_t text = 1024;        // maximum number of bytes of a name, a key or a value
  size_t init_text = 65536;  // maximum number of bytes of the value of "__init__", which may list a whole tensor
  size_t heads = 256;
};

// Parses the text. Code::kData names the line if the text is not JSON, and the node if it is not a symbol file.
// References are checked: a node may read only nodes that precede it, so there are no cycles.
Result<SymbolFile> parse_symbol_file(std::string_view text, const SymbolLimits& limits = {});

}  // namespace dtrain::graph
