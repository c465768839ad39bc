// Steps that add tensors of one layout, optionally with an activation in the same pass over memory. All work in place
// where a term is not needed afterwards.
#pragma once

#include <vector>

#include "exec/cpu/program.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

// What a kernel's arguments that begin with its sources are for the functions of kernels/.
inline const float* const* sources(void* const* arguments) {
  return reinterpret_cast<const float* const*>(arguments);
}

// The sum of the terms; a single term is its own sum. Here and below, terms in other layouts are converted first.
ValueId emit_sum(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout);

// The sum of the terms, written to `target`; 0 if there are none. All have one layout.
void emit_sum_into(Program& program, graph::NodeId node, std::vector<ValueId> terms, ValueId target);

// max(sum of the terms, 0).
ValueId emit_sum_relu(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout);

// factor * (sum of the terms).
ValueId emit_scaled_sum(Program& program, graph::NodeId node, std::vector<ValueId> terms, double factor,
                        const Md& layout);

// (sum of the terms) * derivative of the activation whose output is y.
ValueId emit_activation_backward(Program& program, graph::NodeId node, graph::Activation::Kind kind, ValueId y,
                                 std::vector<ValueId> terms);

}  // namespace dtrain::exec::cpu
