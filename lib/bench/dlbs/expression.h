// The expressions $(...)$ in the parameters of a DLBS benchmark. DLBS passes them to Python's eval; here they are
// limited to numbers and quoted texts with + - * / // % **, comparisons and "x if c else y", with Python's meaning.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::bench {

// The expression's value, as Python's str() writes it: "3", "0.5", "True". Code::kUsage if it contains anything else,
// divides by 0, or exceeds the range of 64 bits.
Result<std::string> evaluate_expression(std::string_view expression);

}  // namespace dtrain::bench
