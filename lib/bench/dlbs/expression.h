// The expressions $(...)$ in the parameters of a DLBS benchmark. DLBS evaluates them with Python's eval. Here they may
// only contain numbers and quoted texts, the operators + - * / // % **, comparisons and "x if c else y", which mean the
// same as in Python.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::bench {

// The value of the expression, formatted like Python's str(): "3", "0.5", "True". Code::kUsage if the expression
// contains anything else, divides by 0, or exceeds the range of 64 bits.
Result<std::string> evaluate_expression(std::string_view expression);

}  // namespace dtrain::bench
