// Networks compute the same after their batch norms were folded into the layers before.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/random.h"
#include "exec/folded_values.h"
#include "graph/models/models.h"
#include "optim/initializer.h"
#include "steps.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

// Weights and statistics of the graph, with the statistics of one batch, and random values where the initial ones, 0
// and 1, would hide a mistake.
std::unique_ptr<Executor> trained(const graph::Graph& graph, const Options& options, const Batch& batch) {
  auto executor = make_cpu_backend()->compile(graph, options).value();
  REQUIRE(optim::initialize({}, executor->parameters(), 1));
  RandomStream random(2, Use::kTest);
  for (const ParameterSpan& parameter : executor->parameters().parameters) {
    if (parameter.kind == ParameterKind::kWeight) continue;
    for (float& value : parameter.weight) value += static_cast<float>(random.uniform(-0.4, 0.4));
  }
  REQUIRE(executor->forward(batch, no_wait));
  return executor;
}

std::vector<float> probabilities(Backend& backend, const graph::Graph& graph, const Options& options,
                                 const Batch& batch, const std::function<void(const ParameterView&)>& fill) {
  const auto executor = backend.compile(graph, options).value();
  fill(executor->parameters());
  REQUIRE(executor->forward(batch, no_wait));
  return {executor->result(0).begin(), executor->result(0).end()};
}

// Returns the number of folded batch norms.
size_t check_folded(const graph::Graph& graph, const test::Network& network) {
  INFO(network.name);
  const test::HostBatch batch = test::random_batch(network, 1);
  Options options{.batch_size = network.batch, .inputs = {{.shape = network.image}}, .threads = 2, .winograd = false};
  const auto model = trained(graph, options, batch.view());
  options.purpose = Options::Purpose::kInference;
  const graph::FoldedGraph folded = graph::fold_batch_norms(graph);
  for (const auto& backend : {make_reference_backend(), make_cpu_backend()}) {
    const std::vector<float> whole =
        probabilities(*backend, graph, options, batch.view(),
                      [&](const ParameterView& view) { test::copy_weights(model->parameters(), view); });
    const std::vector<float> less =
        probabilities(*backend, folded.graph, options, batch.view(),
                      [&](const ParameterView& view) { fill_folded(folded, model->parameters(), view); });
    float apart = 0;
    for (size_t i = 0; i < whole.size(); i++) apart = std::max(apart, std::abs(whole[i] - less[i]));
    CHECK(apart <= 1e-5F);
    CHECK(*std::max_element(whole.begin(), whole.end()) < 0.9999F);
  }
  return folded.folds.size();
}

graph::Graph with_classes(graph::Graph g, graph::NodeId x) {
  g.add("softmax", graph::SoftmaxOutput{},
        {g.add("fc", graph::FullyConnected{.outputs = test::kNetworkClasses}, {g.add("flat", graph::Flatten{}, {x})})});
  return g;
}

}  // namespace

TEST_CASE("layers of every form take over their batch norms", "[exec][cpu]") {
  for (const bool bias : {false, true}) {
    for (const bool fix_gamma : {false, true}) {
      for (const int64_t groups : {1, 2}) {
        INFO("bias " << bias << ", fixed gamma " << fix_gamma << ", " << groups << " groups");
        graph::Graph g;
        const graph::NodeId data = g.add("data", graph::Input{}, {});
        const graph::BatchNorm norm{.epsilon = 2e-5, .momentum = 0, .fix_gamma = fix_gamma};
        graph::NodeId x = g.add(
            "conv",
            graph::Convolution{
                .filters = 32, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .groups = groups, .bias = bias},
            {data});
        x = g.add("relu", graph::Activation{}, {g.add("bn", norm, {x})});
        x = g.add("dense", graph::FullyConnected{.outputs = 12, .bias = bias}, {x});
        x = g.add("bn_dense", norm, {x});
        CHECK(check_folded(with_classes(g, x), {"two layers", {4, 9, 9}, 3}) == 2);
      }
    }
  }
}

TEST_CASE("networks compute the same with folded batch norms", "[exec][cpu]") {
  for (const test::Network& network : std::vector<test::Network>{{"resnet-20", {3, 28, 28}, 4},
                                                                 {"resnet-v1-20", {3, 28, 28}, 4},
                                                                 {"inception-bn-28-small", {3, 28, 28}, 4},
                                                                 {"resnet-18", {3, 33, 33}, 4}}) {
    const graph::Graph graph =
        graph::build_model(
            {.network = network.name, .num_classes = test::kNetworkClasses, .image = network.image, .bn_momentum = 0})
            .value();
    CHECK(check_folded(graph, network) > 5);
  }
}
