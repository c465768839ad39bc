// Initial values of parameters. models.md section 3.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/parameters.h"
#include "tensor/shape.h"

namespace dtrain::optim {

// From "xavier(uniform,in,2.34)", "uniform(0.07)", "normal(0.01)". Code::kUsage, naming the forms that exist: those
// that a network alone sets have none.
Result<InitializerSpec> parse_initializer(std::string_view text);
std::string to_string(const InitializerSpec& spec);

// Fills `values` of the parameter `name` of `shape`: weights by the rule, biases, betas and moving means with 0, gammas
// and moving variances with 1. The numbers depend on (seed, index) alone, index being the parameter's place in
// canonical order. Code::kUsage for a name with any other suffix: nobody has said how such a parameter begins.
Result<> initialize(const InitializerSpec& spec, std::string_view name, const Shape& shape, uint64_t seed,
                    uint64_t index, std::span<float> values);
// All of a network: parameters, then statistics, counted through. A rule of the network's own comes first.
Result<> initialize(const InitializerSpec& spec, const ParameterView& view, uint64_t seed);

}  // namespace dtrain::optim
