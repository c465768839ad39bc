// Initial values of parameters. See docs/arithmetic.md, "Initializers".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/parameters.h"
#include "tensor/shape.h"

namespace dtrain::optim {

// Parses "xavier(uniform,in,2.34)", "uniform(0.07)", "normal(0.01)". Other texts are Code::kUsage, with a list of these
// forms; so are the kinds that only networks use (constant, diagonal).
Result<InitializerSpec> parse_initializer(std::string_view text);
std::string to_string(const InitializerSpec& spec);

// Fills `values` of the parameter `name` with the shape `shape`: weights by the rule, biases, betas and moving means
// with 0, gammas and moving variances with 1. The numbers depend only on (seed, index); `index` is the parameter's
// position in canonical order. Code::kUsage for a name with any other suffix, since its initial value is unknown.
Result<> initialize(const InitializerSpec& spec, std::string_view name, const Shape& shape, uint64_t seed,
                    uint64_t index, std::span<float> values);
// Initializes a whole network: the parameters, then the statistics, which are numbered after them. A rule of the
// network takes precedence over `spec`.
Result<> initialize(const InitializerSpec& spec, const ParameterView& view, uint64_t seed);

}  // namespace dtrain::optim
