#include "graph/fine_tune.h"

#include <set>

#include "graph/flow.h"
#include "graph/models/models.h"
#include "graph/symbol/write.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::graph;
using dtrain::test::must;

namespace {

Graph model(const std::string& network, int64_t classes, const Shape& image) {
  return must(build_model({.network = network, .num_layers = 0, .num_classes = classes, .image = image}));
}

std::set<std::string> parameter_names(const Graph& graph, const Shape& image) {
  std::set<std::string> names;
  for (const ParameterInfo& parameter : must(infer_shapes(graph, image)).parameters) names.insert(parameter.name);
  return names;
}

const Shape kImage = {3, 28, 28};

// conv - bn - relu - conv - flatten - fc1 - softmax
Graph two_layers() {
  Graph g;
  NodeId x = g.add("data", Input{}, {});
  x = g.add("conv1", Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3}, {x});
  x = g.add("bn1", BatchNorm{}, {x});
  x = g.add("relu1", Activation{}, {x});
  x = g.add("conv2", Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3}, {x});
  x = g.add("flat", Flatten{}, {x});
  x = g.add("fc1", FullyConnected{.outputs = 10}, {x});
  g.add("softmax", SoftmaxOutput{}, {x});
  return g;
}

}  // namespace

TEST_CASE("a new head replaces the last layer of every kind of network and keeps all others", "[graph]") {
  struct Case {
    const char* network;
    Shape image;
    const char* last_layer;
  };
  for (const Case& c : {Case{"inception-bn-28-small", kImage, "fc1"}, Case{"resnet-20", kImage, "fc1"},
                        Case{"lenet", {1, 28, 28}, "fullyconnected1"}, Case{"mlp", {1, 28, 28}, "fc3"},
                        Case{"inception-bn", {3, 224, 224}, ""}, Case{"cross-20", kImage, ""}}) {
    INFO(c.network);
    const Graph old = model(c.network, 10, c.image);
    const Graph tuned = must(with_new_head(old, "auto", 5));
    CHECK(must(infer_shapes(tuned, c.image)).heads[0].outputs == 5);
    std::set<std::string> kept = parameter_names(old, c.image), now = parameter_names(tuned, c.image);
    for (const std::string& name : new_head_parameters()) CHECK(now.erase(name) == 1);
    for (const std::string& name : now) CHECK(kept.erase(name) == 1);
    if (*c.last_layer != '\0') CHECK(kept.contains(std::string(c.last_layer) + "_weight"));
    CHECK(kept.size() <= 2);
    CHECK(tuned.node(tuned.output()).name == "softmax");
  }
}

TEST_CASE("a new head follows the layer that is named", "[graph]") {
  const Graph tuned = must(with_new_head(two_layers(), "relu1", 3));
  CHECK(parameter_names(tuned, kImage) ==
        std::set<std::string>{"conv1_weight", "conv1_bias", "bn1_gamma", "bn1_beta", "fc_weight", "fc_bias"});
  const auto refused = with_new_head(two_layers(), "relu2", 3);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message,
             Catch::Contains("--layer-before-fullc relu2") && Catch::Contains("did you mean 'relu1'?"));
  // A new head on a network that has one already replaces it; behind it, the names would be taken.
  CHECK(with_new_head(tuned, "auto", 4));
  CHECK_THAT(with_new_head(tuned, "fc", 4).error().message,
             Catch::Contains("has a layer 'fc', but fine-tuning adds a layer with this name"));
}

TEST_CASE("a shared variable stays shared under a new head", "[graph]") {
  Graph g;
  const Convolution same{.filters = 3, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const NodeId first = g.add("a", same, {g.add("data", Input{}, {})});
  std::vector<TensorId> inputs = g.node(first).inputs;
  inputs[0] = g.tensor(Edge{first});
  g.add("softmax", SoftmaxOutput{}, {g.add("fc1", FullyConnected{.outputs = 2}, {g.add_reader("b", same, inputs)})});
  const Graph tuned = must(with_new_head(g, "auto", 4));
  CHECK(parameter_names(tuned, kImage) == std::set<std::string>{"a_weight", "a_bias", "fc_weight", "fc_bias"});
}

TEST_CASE("patterns match whole names", "[graph]") {
  CHECK(fits("conv1", "conv1"));
  CHECK_FALSE(fits("conv1", "conv10"));
  CHECK(fits("conv*", "conv10"));
  CHECK(fits("*", ""));
  CHECK(fits("*3a*_bn", "in3a_conv1_bn"));
  CHECK(fits("a?c*", "abcc"));
  CHECK_FALSE(fits("a?c", "ac"));
  CHECK_FALSE(fits("", "a"));
  CHECK(fits("a*b*c", "aXbYbZc"));
  CHECK_FALSE(fits("a*b*c", "aXbYbZ"));
}

TEST_CASE("frozen layers have no rate and no gradient before the first layer that learns", "[graph]") {
  Graph g = two_layers();
  must(apply_rates({"conv1=0", "bn*=0"}, g));
  const Shapes shapes = must(infer_shapes(g, kImage));
  for (const ParameterInfo& parameter : shapes.parameters) {
    const bool frozen = parameter.name.starts_with("conv1") || parameter.name.starts_with("bn1");
    INFO(parameter.name);
    CHECK(g.variables()[parameter.variable].is_frozen() == frozen);
    CHECK(parameter.rule.learning_rate.has_value() == frozen);
    if (frozen) CHECK((*parameter.rule.learning_rate == 0 && *parameter.rule.weight_decay == 0));
  }
  const std::vector<char> wants = wants_gradient(g, shapes);
  for (NodeId id = 0; id < wants.size(); id++) {
    INFO(g.node(id).name);
    CHECK((wants[id] != 0) == (id >= 4));
  }
}

// Whoever trains on from the file would have layers that never learn.
TEST_CASE("the rates of a job are not written into its symbol file", "[graph]") {
  Graph g = two_layers();
  const std::string before = symbol_text(g);
  must(apply_rates({"*=0.1", "fc1=10", "conv1=0", "bn*=0"}, g));
  CHECK(symbol_text(g) == before);
}

TEST_CASE("the last rate that fits counts, also for a layer that was frozen before", "[graph]") {
  Graph g = two_layers();
  must(apply_rates({"*=0", "*=0.1", "fc1=10", "conv2_bias=2", "conv1_bias=0"}, g));
  for (const ParameterInfo& parameter : must(infer_shapes(g, kImage)).parameters) {
    INFO(parameter.name);
    const double rate = parameter.name == "conv1_bias"     ? 0
                        : parameter.name == "conv2_bias"   ? 2
                        : parameter.name.starts_with("fc") ? 10
                                                           : 0.1;
    CHECK(parameter.rule.learning_rate == rate);
  }
}

TEST_CASE("patterns and rates that make no sense are refused", "[graph]") {
  Graph g = two_layers();
  const auto refusal = [&](const std::vector<std::string>& rules) {
    const auto applied = apply_rates(rules, g);
    REQUIRE_FALSE(applied);
    CHECK(applied.error().code == Code::kUsage);
    return applied.error().message;
  };
  CHECK_THAT(refusal({"conv3=0"}), Catch::Contains("--lr-mult conv3") && Catch::Contains("did you mean 'conv1'?"));
  CHECK_THAT(refusal({"relu1=2"}), Catch::Contains("such layers are conv1, bn1, conv2, fc1"));
  CHECK_THAT(refusal({"*=0"}), Catch::Contains("all parameters of the network are frozen"));
  for (const char* rule : {"conv1", "=1", "conv1=", "conv1=x", "conv1=-1", "conv1=1x"}) {
    CHECK_THAT(refusal({rule}), Catch::Contains("must have the form PATTERN=X"));
  }
}
