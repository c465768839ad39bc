// Steps that add tensors of one layout, optionally with an activation in the same pass over memory. All work in place
// if a term is not needed afterwards.
#pragma once

#include <vector>

#include "exec/cpu/program.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

// Converts a kernel's arguments, which begin with its sources, to the type that the functions of kernels/ take.
inline const float* const* sources(void* const* arguments) {
  return reinterpret_cast<const float* const*>(arguments);
}

// The sum of the terms; a single term is its own sum. Here and below, terms in other layouts are converted first.
ValueId emit_sum(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout);

// Writes the sum of the terms to `target`, or 0 if there are none. All have one layout.
void emit_sum_into(Program& program, graph::NodeId node, std::vector<ValueId> terms, ValueId target);

// Computes max(sum of the terms, 0).
ValueId emit_sum_relu(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout);

// Computes factor * (sum of the terms).
ValueId emit_scaled_sum(Program& program, graph::NodeId node, std::vector<ValueId> terms, double factor,
                        const Md& layout);

// Computes (sum of the terms) * derivative of the activation whose output is y.
ValueId emit_activation_backward(Program& program, graph::NodeId node, graph::Activation::Kind kind, ValueId y,
                                 std::vector<ValueId> terms);

}  // namespace dtrain::exec::cpu
