// The operators of dtrain in the words of MXNet 1.9: their names and attributes. This is the only place that knows
// them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/spelling.h"

namespace dtrain::graph {

// The names of all operators that can be read, without the names that are only other names for them.
std::vector<std::string> known_operators();

// The name that MXNet 1.9 writes for an operator that a file of any version calls `name`: "elemwise_add" for "_Plus".
// Names that are not known stay as they are.
std::string_view written_name(std::string_view name);
// The name that MXNet 1.9 writes for a node of this operator with this number of inputs.
std::string_view usual_name(const Op& op, size_t inputs);

// Reads an operator. On failure Code::kUsage: the name is not known, or dtrain lacks the operator with these
// attributes. The message has neither the node nor the file.
Result<Op> read_operator(std::string_view name, const Attributes& attributes, size_t inputs);

// What a node of this operator with this number of inputs reads, in the order of the file. The numbers differ if the
// file lacks inputs or has too many.
std::vector<Argument> file_arguments(const Op& op, size_t inputs);

// The attributes of a node of this operator that differ from MXNet's default values, and those that MXNet requires.
Attributes attributes_of(const Op& op, size_t inputs);
// The same, and attributes that have MXNet's default values: those whose keys `stated` lists, separated by blanks.
// KEY=TEXT is an attribute that does not change what the operator computes, such as "workspace=256".
Attributes stated_attributes(const Op& op, size_t inputs, std::string_view stated);

}  // namespace dtrain::graph
