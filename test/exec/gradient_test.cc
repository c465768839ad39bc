// Compares the reference's gradients with central differences, in float64.
#include <algorithm>
#include <cmath>

#include "cases.h"
#include "exec/reference/executor.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Case;
using exec::test::HostBatch;
using exec::test::Values;

namespace {

using Reference = reference::ReferenceExecutor<double>;

// The function whose gradient softmax_backward computes: the cross-entropy against the smoothed labels, summed over the
// batch, times the node's factor.
double loss_of(Reference& executor, const Case& c, const HostBatch& batch, graph::NodeId softmax) {
  const auto& op = std::get<graph::SoftmaxOutput>(c.graph.node(softmax).op);
  const double alpha = op.smooth_alpha;
  const std::span<const double> p = executor.output(softmax);
  const size_t labels = executor.shapes().labels.size(), label = graph::label_of(c.graph, executor.shapes(), softmax);
  const size_t rows = batch.labels.size() / labels, classes = p.size() / rows;
  double sum = 0;
  for (size_t i = 0; i < p.size(); i++) {
    const bool is_label = i % classes == static_cast<size_t>(batch.labels[i / classes * labels + label]);
    sum -= (is_label ? 1 - alpha : alpha / static_cast<double>(classes - 1)) * std::log(p[i]);
  }
  return sum * static_cast<double>(op.factor(static_cast<int64_t>(rows)));
}

double loss(Reference& executor, const Case& c, const HostBatch& batch) {
  REQUIRE(executor.begin_forward(batch.view()));
  executor.load_parameters();
  double sum = 0;
  for (const graph::NodeId id : executor.order()) {
    executor.forward_node(id);
    if (graph::is_loss(c.graph.node(id).op)) sum += loss_of(executor, c, batch, id);
  }
  return sum;
}

// Divides by the step that float32 rounding really makes. 2^-13 is smaller than the distance of the cases' numbers to
// each other and to 0, and its square is far below the tolerance.
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

// Compares some elements, spread over the tensor, relative to the tensor's largest gradient.
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

// Gradients with respect to the data and to every parameter. "before" is the identity, so the gradient of its output is
// that of the data.
TEST_CASE("the gradients of every operator agree with central differences", "[exec][gradient]") {
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

    // The differences run the network forward again, which leaves the gradients unchanged.
    const graph::NodeId before = 1;
    if (c.graph.node(before).name == "before") {
      INFO("by the data");
      check_gradient(*executor, c, batch, batch.data, copy(executor->gradient(before)));
    }
    const graph::Shapes& shapes = executor->shapes();
    for (size_t i = 0; i < shapes.parameters.size(); i++) {
      const ParameterSpan& p = executor->parameters().parameters[i];
      // A change of this weight moves all data of a channel, over the kinks. 1 x 1 convolutions have cases of their
      // own.
      if (p.name == "before_weight") continue;
      INFO("by " << p.name);
      check_gradient(*executor, c, batch, p.weight, copy(executor->parameter_gradient(i)));
    }
    checked++;
  }
  CHECK(checked > 70);
}
