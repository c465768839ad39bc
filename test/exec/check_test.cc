#include "exec/check.h"

#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>

#include "cases.h"
#include "pixels.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Case;
using exec::test::Values;

namespace {

// An executor with one wrong number: in a node's output, in a node's gradient, or in a parameter's gradient.
class Faulty final : public Executor {
 public:
  explicit Faulty(std::unique_ptr<Executor> right) : right_(std::move(right)) {}

  std::optional<graph::NodeId> output, gradient;
  std::optional<size_t> parameter;
  float fault = 0.25F;

  Result<> forward(const Batch& batch, const WeightsWait& wait) override { return right_->forward(batch, wait); }
  Result<> backward(const GradientReady& ready) override {
    DT_TRY_VOID(right_->backward(ready));
    if (parameter) right_->parameters().parameters[*parameter].gradient[0] += fault;
    return {};
  }
  const ParameterView& parameters() override { return right_->parameters(); }
  size_t heads() const override { return right_->heads(); }
  std::span<const float> result(size_t head) override { return right_->result(head); }
  std::vector<float> node_output(graph::NodeId node) override {
    return spoil(right_->node_output(node), output == node);
  }
  std::vector<float> node_gradient(graph::NodeId node) override {
    return spoil(right_->node_gradient(node), gradient == node);
  }
  size_t memory_bytes() const override { return right_->memory_bytes(); }

 private:
  std::vector<float> spoil(std::vector<float> tensor, bool wrong) const {
    if (wrong) tensor.back() += fault;
    return tensor;
  }
  std::unique_ptr<Executor> right_;
};

Case residual_unit() {
  for (Case& c : exec::test::operator_cases()) {
    if (c.name == "residual unit, relu after the sum") return std::move(c);
  }
  throw std::logic_error("the case is gone");
}

CheckReport report(const Case& c, Faulty& executor) {
  fill_parameters(executor.parameters(), Values::kFloats, 1);
  const exec::test::HostBatch batch = make_batch(c, Values::kFloats, 2);
  return check_against_reference(c.graph, case_options(c), executor, batch.view()).value();
}

Faulty compile(const Case& c) {
  return Faulty(make_reference_backend()->compile(c.graph, case_options(c)).value());
}

graph::NodeId node_called(const graph::Graph& graph, const std::string& name) {
  for (graph::NodeId id = 0; id < graph.nodes().size(); id++) {
    if (graph.node(id).name == name) return id;
  }
  throw std::logic_error("no node " + name);
}

}  // namespace

// The check computes each node from the tested executor's own inputs, so one fault is one difference, wherever it is.
TEST_CASE("a fault is found at its node and nowhere else", "[exec][check]") {
  const Case c = residual_unit();
  SECTION("none") {
    Faulty executor = compile(c);
    const CheckReport r = report(c, executor);
    CHECK(r.agrees());
    CHECK(r.compared > 30);
    CHECK_THAT(r.text(), Catch::StartsWith("check: all 36 tensors agree with the reference; worst: node '"));
  }
  SECTION("an output, which the readers of the node use unchanged") {
    Faulty executor = compile(c);
    executor.output = node_called(c.graph, "conv2");
    const CheckReport r = report(c, executor);
    REQUIRE(!r.agrees());
    CHECK(r.differences.front().node == "conv2");
    CHECK(r.differences.front().what == "output");
    // The readers used the right number but were expected to have used the wrong one.
    for (const Comparison& d : r.differences) {
      const bool reads_it = d.node == "conv2" || d.node == "bn2";
      CHECK(reads_it);
    }
    CHECK_THAT(r.text(), Catch::Contains("first: node 'conv2' (Convolution), output: normalized error "));
  }
  SECTION("a gradient with respect to a node's output") {
    Faulty executor = compile(c);
    executor.gradient = node_called(c.graph, "plus");
    const CheckReport r = report(c, executor);
    REQUIRE(!r.agrees());
    CHECK(r.differences.front().node == "plus");
    CHECK(r.differences.front().what == "gradient with respect to its output");
  }
  SECTION("a parameter's gradient") {
    Faulty executor = compile(c);
    executor.parameter = 2;
    const CheckReport r = report(c, executor);
    REQUIRE(r.differences.size() == 1);
    CHECK(r.differences.front().what == "gradient of " + executor.parameters().parameters[2].name);
  }
  SECTION("not a number") {
    Faulty executor = compile(c);
    executor.output = node_called(c.graph, "relu1");
    executor.fault = NAN;
    CHECK(!report(c, executor).agrees());
  }
}

// The float32 reference is a backend like others: with floats it is as close to float64 as its type allows.
TEST_CASE("the float32 reference agrees with float64 in every operator case", "[exec][check]") {
  for (const Case& c : exec::test::operator_cases()) {
    INFO(c.name);
    Faulty executor = compile(c);
    const CheckReport r = report(c, executor);
    INFO(r.text());
    CHECK(r.agrees());
  }
}

TEST_CASE("the check takes pixels too", "[exec][check]") {
  const Case c = exec::test::operator_cases().front();
  const auto batch = exec::test::make_pixels(c.image, c.batch, 4, true, 1);
  Options options = case_options(c);
  options.inputs[0].normalisation = batch.normalisation;
  const auto executor = make_reference_backend()->compile(c.graph, options).value();
  fill_parameters(executor->parameters(), exec::test::Values::kFloats, 1);
  const CheckReport report = check_against_reference(c.graph, options, *executor, batch.view()).value();
  CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
}
