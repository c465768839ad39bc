// Gradients of the reference against central differences, in float64.
#include <catch2/catch.hpp>
#include <cmath>

#include "cases.h"
#include "exec/reference/executor.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Case;
using exec::test::HostBatch;
using exec::test::Values;

namespace {

using Reference = reference::ReferenceExecutor<double>;

// What softmax_backward is the gradient of: the cross-entropy against the smoothed labels, summed over the batch.
double loss(Reference& executor, const Case& c, const HostBatch& batch) {
  REQUIRE(executor.begin_forward(batch.view()));
  executor.load_parameters();
  for (const graph::NodeId id : executor.order()) executor.forward_node(id);
  const graph::NodeId softmax = c.graph.output();
  const double alpha = std::get<graph::SoftmaxOutput>(c.graph.node(softmax).op).smooth_alpha;
  const std::span<const double> p = executor.output(softmax);
  const size_t classes = p.size() / batch.labels.size();
  double sum = 0;
  for (size_t i = 0; i < p.size(); i++) {
    const bool is_label = i % classes == static_cast<size_t>(batch.labels[i / classes]);
    sum -= (is_label ? 1 - alpha : alpha / static_cast<double>(classes - 1)) * std::log(p[i]);
  }
  return sum;
}

// The step is what float32 makes of it. 2^-13: below the distance of the cases' data to each other and to 0, and its
// square far below the tolerance.
double central_difference(Reference& executor, const Case& c, const HostBatch& batch, float& x) {
  constexpr float kStep = 0x1p-13F;
  const float before = x;
  x = before + kStep;
  const double above = x, loss_above = loss(executor, c, batch);
  x = before - kStep;
  const double below = x, loss_below = loss(executor, c, batch);
  x = before;
  return (loss_above - loss_below) / (above - below);
}

// Compares some elements, spread over the tensor, by the size of the tensor's largest gradient.
void check_gradient(Reference& executor, const Case& c, const HostBatch& batch, std::span<float> x,
                    const std::vector<double>& gradient) {
  constexpr size_t kSamples = 7;
  constexpr double kTolerance = 1e-6;
  double largest = 1e-3;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  const size_t stride = std::max<size_t>(1, x.size() / kSamples);
  for (size_t i = stride / 2; i < x.size(); i += stride) {
    INFO("element " << i << " of " << x.size());
    CHECK(central_difference(executor, c, batch, x[i]) == Approx(gradient[i]).epsilon(0).margin(kTolerance * largest));
  }
}

std::vector<double> copy(std::span<const double> x) {
  return {x.begin(), x.end()};
}

}  // namespace

// By the data, where "before" is the identity and its output's gradient the gradient by the data, and by every
// parameter.
TEST_CASE("every operator's gradients are those of central differences", "[exec][gradient]") {
  size_t checked = 0;
  for (const Case& c : exec::test::operator_cases()) {
    if (!c.smooth) continue;
    INFO(c.name);
    const auto executor = Reference::compile(c.graph, case_options(c), nullptr).value();
    fill_parameters(executor->parameters(), Values::kFloats, 3);
    HostBatch batch = make_batch(c, Values::kFloats, 4);
    loss(*executor, c, batch);
    executor->begin_backward();
    for (auto id = executor->order().rbegin(); id != executor->order().rend(); ++id) executor->backward_node(*id);

    // The differences run the network forward again, and leave gradients as they are.
    const graph::NodeId before = 1;
    if (c.graph.node(before).name == "before") {
      INFO("by the data");
      check_gradient(*executor, c, batch, batch.data, copy(executor->gradient(before)));
    }
    const graph::Shapes& shapes = executor->shapes();
    size_t of_node = 0;
    for (size_t i = 0; i < shapes.parameters.size(); i++) {
      of_node = i > 0 && shapes.parameters[i].node == shapes.parameters[i - 1].node ? of_node + 1 : 0;
      const ParameterSpan& p = executor->parameters().parameters[i];
      // A step there moves all data of a channel, over the kinks; 1 x 1 convolutions have cases of their own.
      if (p.name == "before_weight") continue;
      INFO("by " << p.name);
      check_gradient(*executor, c, batch, p.weight,
                     copy(executor->parameter_gradient(shapes.parameters[i].node, of_node)));
    }
    checked++;
  }
  CHECK(checked > 70);
}
