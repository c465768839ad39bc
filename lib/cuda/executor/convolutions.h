// The plans of all convolutions and fully connected layers of a graph.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "cuda/executor/convolution_runner.h"
#include "cuda/executor/layout.h"

namespace dtrain::cuda {

// The plans of one layer. A plan that is not needed is null: backward plans for inference, and backward_data if no node
// before the layer has parameters.
struct LayerPlans {
  ConvolutionShape shape;
  // backward_data: for a single image if Layout::wants_sum is set for the layer's input.
  std::shared_ptr<const ConvolutionPlan> forward, backward_data, backward_filter;
  // Plans with ConvolutionPass::adds; null if there is nothing to add, or if the device has no such plan.
  // forward_adding computes a later Add too (Fusions::sum_of), backward_data_adding adds to the gradient of another
  // reader of the input.
  std::shared_ptr<const ConvolutionPlan> forward_adding, backward_data_adding;
};

// Indexed by node; only convolutions and fully connected layers have entries. Errors are those of the runner.
using GraphPlans = std::map<graph::NodeId, LayerPlans>;
Result<GraphPlans> plan_convolutions(const graph::Graph& graph, const graph::Shapes& shapes, const Layout& layout,
                                     const exec::Options& options, ConvolutionRunner& runner);

}  // namespace dtrain::cuda
