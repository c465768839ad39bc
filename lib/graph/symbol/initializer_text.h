// MXNet's texts for initializers, in the attribute "__init__" of a variable: ["xavier", {"magnitude": 2}], or the name
// alone, as networks of gluon have it: ones.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/parameters.h"

namespace dtrain::graph {

// Empty if MXNet has no equivalent.
std::string initializer_text(const InitializerSpec& spec);
// Code::kUsage for a text that is no initializer and for one that dtrain does not have.
Result<InitializerSpec> read_initializer(std::string_view text);

}  // namespace dtrain::graph
