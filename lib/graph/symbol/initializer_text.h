// MXNet's texts for initializers, in the attribute "__init__" of a variable: ["xavier", {"magnitude": 2}], or only the
// name, such as ones, as in Gluon's networks.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/parameters.h"

namespace dtrain::graph {

// MXNet's text for the initializer; empty if MXNet has no equivalent.
std::string initializer_text(const InitializerSpec& spec);
// Code::kUsage if the text is not an initializer, or is an initializer that dtrain does not support.
Result<InitializerSpec> read_initializer(std::string_view text);

}  // namespace dtrain::graph
