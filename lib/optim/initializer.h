// Computes initial values of parameters. See docs/arithmetic.md, "Initializers".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/parameters.h"

namespace dtrain::optim {

// Parses "xavier(uniform,in,2.34)", "msra(in,0.25)" or "msraprelu(in,0.25)", "orthogonal(uniform,1.414)", "bilinear",
// "uniform(0.07)", "normal(0.01)", "one", "zero". Code::kUsage, with a list of these forms, for other texts, and for
// the kinds that only networks use (constant, diagonal).
Result<InitializerSpec> parse_initializer(std::string_view text);
std::string to_string(const InitializerSpec& spec);

// Fills the values of a parameter or a statistic. Uses the network's rule for the tensor if that rule has an initial
// value. Otherwise the tensor's kind (tensor/parameters.h) decides; weights then use `spec`. The values depend only on
// (seed, index); `index` is the tensor's position in canonical order. Code::kUsage if neither rule nor kind gives an
// initial value, or if the initial value does not apply to the tensor's shape.
Result<> initialize(const InitializerSpec& spec, const ParameterSpan& tensor, uint64_t seed, uint64_t index);
// Initializes a whole network: the parameters, then the statistics, which are numbered after them.
Result<> initialize(const InitializerSpec& spec, const ParameterView& view, uint64_t seed);

}  // namespace dtrain::optim
