// The plans that the executor requests, through its own code and for a device that is only described: every pass of
// every layer in the layout that the executor chooses. plans_test.cc checks which plans are chosen.

#include "cuda/dnn/networks.h"
#include "cuda/dnn/planner.h"
#include "cuda/executor/convolutions.h"
#include "support/catch.h"

namespace dtrain::cuda {

namespace {

class ListedPlan final : public ConvolutionPlan {
 public:
  explicit ListedPlan(size_t workspace_bytes) : workspace_bytes_(workspace_bytes) {}
  [[nodiscard]] size_t workspace_bytes() const override { return workspace_bytes_; }
  [[nodiscard]] Call bind(const ConvolutionPointers&) const override { return {}; }

 private:
  size_t workspace_bytes_;
};

// Makes the same plans as dnn_runner with --deterministic, without a handle to run them.
class Planning final : public ConvolutionRunner {
 public:
  explicit Planning(const PlanOptions& options = {.deterministic = true, .compile_at_run_time = false})
      : planner_(h200(), options) {}
  Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool) override {
    passes.push_back(pass.text());
    DT_TRY(const Plan plan, planner_.plan(pass));
    return std::make_shared<ListedPlan>(plan.workspace_bytes());
  }
  std::vector<std::string> passes;

 private:
  Planner planner_;
};

}  // namespace

TEST_CASE("every pass that the executor asks for has a compiled plan on sm_90", "[cuda]") {
  Planning runner;
  for (const Network& network : networks()) {
    const graph::Graph graph = test::must(
        graph::build_model({.network = network.name, .num_classes = network.classes, .image = network.image}));
    const graph::Shapes shapes = test::must(graph::infer_shapes(graph, network.image));
    for (const Type type : {Type::kFloat16, Type::kBfloat16, Type::kFloat32}) {
      if (type != Type::kFloat16 && !network.small) continue;
      INFO(network.name << " in " << type_name(type));
      const exec::Options options{.batch_size = 128, .inputs = {{.shape = network.image}}, .dtype = type};
      const Result<GraphPlans> plans =
          plan_convolutions(graph, shapes, choose_layout(graph, shapes, options), options, runner);
      if (!plans) FAIL(plans.error().text());
      CHECK(plans->size() == convolutions_of(graph, shapes, 1).size());
    }
  }
  // In 16-bit types, images of 3 channels are read as 4 or 8.
  const auto asks_for = [&](const std::string& text) { return std::ranges::count(runner.passes, text) > 0; };
  CHECK(asks_for("forward float16 128x4x224x224 k64 7x7 s2 p3"));
  CHECK_FALSE(asks_for("forward float16 128x3x224x224 k64 7x7 s2 p3"));
  CHECK(asks_for("forward bfloat16 128x8x28x28 k16 3x3 s1 p1"));
}

// Such a copy is as large as the images with 8 channels. The gradient of the images is needed only for their sum.
TEST_CASE("in bfloat16 no pass of a network's first convolution copies the images", "[cuda]") {
  constexpr int64_t kBatch = 256;
  for (const char* name : {"resnet-50", "resnet-v1-50", "inception-bn"}) {
    const Shape image = {3, 224, 224};
    const graph::Graph graph = test::must(graph::build_model({.network = name, .image = image}));
    const graph::Shapes shapes = test::must(graph::infer_shapes(graph, image));
    for (const bool deterministic : {false, true}) {
      INFO(name << ", deterministic " << deterministic);
      Planning runner({.deterministic = deterministic, .compile_at_run_time = false});
      const exec::Options options{.batch_size = kBatch, .inputs = {{.shape = image}}, .dtype = Type::kBfloat16};
      const GraphPlans plans =
          test::must(plan_convolutions(graph, shapes, choose_layout(graph, shapes, options), options, runner));
      const LayerPlans& first = plans.begin()->second;
      REQUIRE(first.shape.h == 224);
      const auto copy = static_cast<size_t>(kBatch * 8 * 224 * 224 * bytes_of(Type::kBfloat16));
      for (const auto& plan : {first.forward, first.backward_filter, first.backward_data}) {
        if (plan != nullptr) CHECK(plan->workspace_bytes() < copy / 8);
      }
    }
  }
}

// No engine is left if none may have a workspace, not even an empty one.
TEST_CASE("a layer without a plan is refused before the run, with its name and what to do", "[cuda]") {
  const Network network{"lenet", 10, {1, 28, 28}, true};
  const graph::Graph graph = test::must(graph::build_model({.network = network.name, .image = network.image}));
  const graph::Shapes shapes = test::must(graph::infer_shapes(graph, network.image));
  const exec::Options options{.batch_size = 128, .inputs = {{.shape = network.image}}, .dtype = Type::kFloat16};
  const auto text_with = [&](bool deterministic) {
    Planning runner({.workspace_bytes_max = -1, .deterministic = deterministic});
    const auto plans = plan_convolutions(graph, shapes, choose_layout(graph, shapes, options), options, runner);
    REQUIRE_FALSE(plans);
    CHECK(plans.error().code == Code::kDevice);
    return plans.error().text();
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(text_with(false),
             Contains("NVIDIA H200") && Contains("too large a workspace") && Contains("planning node 'convolution0'") &&
                 Contains("; use another --dtype, or --cpus instead of --gpus") && !Contains("--deterministic"));
  CHECK_THAT(text_with(true), Contains("; leave out --deterministic, use another --dtype, or"));
}

}  // namespace dtrain::cuda
