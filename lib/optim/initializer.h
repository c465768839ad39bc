// Initial values of parameters. See docs/arithmetic.md, "Initializers".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/parameters.h"

namespace dtrain::optim {

// Parses "xavier(uniform,in,2.34)", "msra(in,0.25)" or "msraprelu(in,0.25)", "orthogonal(uniform,1.414)", "bilinear",
// "uniform(0.07)", "normal(0.01)", "one", "zero". Other texts are Code::kUsage, with a list of these forms; so are the
// kinds that only networks use (constant, diagonal).
Result<InitializerSpec> parse_initializer(std::string_view text);
std::string to_string(const InitializerSpec& spec);

// Fills the values of a parameter or a statistic: by the network's rule for it if that has an initial value, otherwise
// by its kind (tensor/parameters.h), weights by `spec`. The numbers depend only on (seed, index); `index` is the
// tensor's position in canonical order. Code::kUsage for a tensor whose initial value neither rule nor kind gives, and
// for a shape that the rule is not for.
Result<> initialize(const InitializerSpec& spec, const ParameterSpan& tensor, uint64_t seed, uint64_t index);
// Initializes a whole network: the parameters, then the statistics, which are numbered after them.
Result<> initialize(const InitializerSpec& spec, const ParameterView& view, uint64_t seed);

}  // namespace dtrain::optim
