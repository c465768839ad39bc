#include "cuda/executor/convolutions.h"

#include <algorithm>
#include <string>

#include "cuda/executor/fuse.h"
#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::cuda {

namespace {

using Plan = std::shared_ptr<const ConvolutionPlan>;

class Maker {
 public:
  Maker(const exec::Options& options, ConvolutionRunner& runner) : options_(options), runner_(runner) {}

  // `dx_images`: the number of images for which the gradient with respect to the layer's input is needed. adds_forward,
  // adds_backward: whether plans that add are of use.
  Result<LayerPlans> layer(const ConvolutionShape& shape, int64_t dx_images, bool adds_forward, bool adds_backward) {
    LayerPlans plans;
    plans.shape = shape;
    DT_TRY(plans.forward, plan(shape, Pass::kForward));
    if (adds_forward) plans.forward_adding = adding_plan(shape, Pass::kForward);
    if (options_.purpose == exec::Options::Purpose::kInference) return plans;
    DT_TRY(plans.backward_filter, plan(shape, Pass::kBackwardFilter));
    if (dx_images == 0) return plans;
    ConvolutionShape of_dx = shape;
    of_dx.n = dx_images;
    DT_TRY(plans.backward_data, plan(of_dx, Pass::kBackwardData));
    if (adds_backward) plans.backward_data_adding = adding_plan(of_dx, Pass::kBackwardData);
    return plans;
  }

 private:
  // Equal layers, which networks have many of, share a plan.
  Result<Plan> plan(const ConvolutionShape& shape, Pass pass, bool adds = false) {
    const ConvolutionPass asked{shape, pass, options_.dtype, adds};
    Plan& known = plans_[asked.text()];
    if (known == nullptr) {
      DT_TRY(known, runner_.plan(asked, options_.tf32));
    }
    return known;
  }

  // Null if the device has no such plan, because a kernel can add as well.
  Plan adding_plan(const ConvolutionShape& shape, Pass pass) {
    const Result<Plan> made = plan(shape, pass, true);
    return made ? *made : nullptr;
  }

  const exec::Options& options_;
  ConvolutionRunner& runner_;
  std::map<std::string, Plan> plans_;
};

}  // namespace

Result<GraphPlans> plan_convolutions(const graph::Graph& graph, const graph::Shapes& shapes, const Layout& layout,
                                     const exec::Options& options, ConvolutionRunner& runner) {
  Maker maker(options, runner);
  GraphPlans result;
  const Fusions fusions = find_fusions(graph, options.keep_all);
  const std::vector<std::vector<graph::NodeId>> readers = graph::readers(graph);
  for (ConvolutionCase& found : convolutions_of(graph, shapes, options.batch_size)) {
    const graph::Node& node = graph.node(found.node);
    for (size_t p = 0; p < shapes.parameters.size(); p++) {
      const graph::ParameterInfo& parameter = shapes.parameters[p];
      const graph::TensorUse use{found.node, graph::Convolution::kWeight};
      const bool weight = std::ranges::find(parameter.uses, use) != parameter.uses.end();
      // Images of 3 channels may be stored with more, so the number of input channels of a convolution is that of a
      // group as stored, times the number of groups.
      if (weight && std::holds_alternative<graph::Convolution>(node.op)) {
        found.shape.c = layout.weights[p].stored_channels * found.shape.op.groups;
      }
    }
    const int64_t dx_images = !found.needs_dx ? 0 : layout.wants_sum[node.data_inputs[0]] != 0 ? 1 : found.shape.n;
    const bool adds_backward =
        dx_images > 1 && readers[node.data_inputs[0]].size() > 1 && std::holds_alternative<graph::Convolution>(node.op);
    const bool adds_forward = fusions.summed_by[found.node] != Fusions::kNone;
    DT_TRY(LayerPlans plans, maker.layer(found.shape, dx_images, adds_forward, adds_backward), "planning node '{}'",
           node.name);
    result.emplace(found.node, std::move(plans));
  }
  runner.planned();
  return result;
}

}  // namespace dtrain::cuda
