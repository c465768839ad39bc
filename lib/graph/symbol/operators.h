// Translates the operators of dtrain to the names and attributes of MXNet 1.9. This is the only place that knows them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/spelling.h"

namespace dtrain::graph {

// The names of all operators that can be read, without synonyms.
std::vector<std::string> known_operators();

// The name that MXNet 1.9 writes for an operator that a file of any version calls `name`: "elemwise_add" for "_Plus".
// Unknown names are returned as they are.
std::string_view written_name(std::string_view name);
// The name that MXNet 1.9 writes for a node of this operator with this number of inputs.
std::string_view usual_name(const Op& op, size_t inputs);

// Reads an operator. Code::kUsage if the name is not known, or if dtrain does not support the operator with these
// attributes. The message names neither the node nor the file.
Result<Op> read_operator(std::string_view name, const Attributes& attributes, size_t inputs);

// The arguments that a node of this operator with this number of inputs reads, in the order of the file. If the file
// has too few or too many inputs, the number of arguments differs from `inputs`.
std::vector<Argument> file_arguments(const Op& op, size_t inputs);

// The attributes of a node of this operator that differ from MXNet's default values, and those that MXNet requires.
Attributes attributes_of(const Op& op, size_t inputs);
// Like attributes_of, plus attributes that have MXNet's default values: those whose keys are in `stated`, separated by
// blanks. KEY=TEXT in `stated` is an attribute that does not change what the operator computes, such as
// "workspace=256".
Attributes stated_attributes(const Op& op, size_t inputs, std::string_view stated);

}  // namespace dtrain::graph
