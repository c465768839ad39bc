#include "graph/graph.h"

#include <tuple>

#include "graph/flow.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::graph;

// In a + b the branch of a comes first, whichever was built first. Inputs are visited once.
TEST_CASE("canonical order walks depth first from the output", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId shortcut = g.add("shortcut", Convolution{.filters = 4}, {data});
  const NodeId branch = g.add("branch", Convolution{.filters = 4}, {data});
  const NodeId unused = g.add("unused", Identity{}, {data});
  const NodeId sum = g.add("sum", Add{}, {branch, shortcut});
  const NodeId out = g.add("softmax", SoftmaxOutput{}, {sum});
  CHECK(g.canonical_order() == std::vector<NodeId>{data, branch, shortcut, sum, out});
  CHECK(unused != out);
}

TEST_CASE("a repeated name or an unknown input is a bug", "[graph]") {
  Graph g;
  g.add("data", Input{}, {});
  CHECK_THROWS_AS(g.add("data", Identity{}, {0}), CheckFailed);
  CHECK_THROWS_AS(g.add("x", Identity{}, {7}), CheckFailed);
  CHECK_THROWS_AS(g.add("", Identity{}, {0}), CheckFailed);
}

TEST_CASE("a node makes a variable for each argument that no node computes", "[graph]") {
  using Role = Variable::Role;
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId conv = g.add("conv", Convolution{.filters = 4}, {data});
  const NodeId norm = g.add("bn", BatchNorm{}, {conv});
  const NodeId fc = g.add("fc", FullyConnected{.outputs = 2, .bias = false}, {norm});
  g.add("softmax", SoftmaxOutput{}, {fc});
  const std::vector<std::tuple<std::string, Role, ParameterKind>> expected = {
      {"data", Role::kInput, ParameterKind::kOther},
      {"conv_weight", Role::kLearned, ParameterKind::kWeight},
      {"conv_bias", Role::kLearned, ParameterKind::kBias},
      {"bn_gamma", Role::kLearned, ParameterKind::kGamma},
      {"bn_beta", Role::kLearned, ParameterKind::kBeta},
      {"bn_moving_mean", Role::kStatistic, ParameterKind::kOther},
      {"bn_moving_var", Role::kStatistic, ParameterKind::kOther},
      {"fc_weight", Role::kLearned, ParameterKind::kWeight},
      {"softmax_label", Role::kLabel, ParameterKind::kOther},
  };
  REQUIRE(g.variables().size() == expected.size());
  for (size_t i = 0; i < expected.size(); i++) {
    CHECK(std::tuple(g.variables()[i].name, g.variables()[i].role, g.variables()[i].kind) == expected[i]);
  }
}

TEST_CASE("every tensor is a variable or an output of a node", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId norm = g.add("bn", BatchNorm{}, {data});
  CHECK(g.tensor_count() == 7);  // the images, what the two nodes compute, and what the norm keeps
  const std::vector<TensorId>& read = g.node(norm).inputs;
  REQUIRE(read.size() == 5);
  CHECK(read[0] == g.tensor(Edge{data}));
  CHECK(g.edge(read[0]) == Edge{data, 0});
  CHECK_FALSE(g.variable(read[0]));
  CHECK_FALSE(g.edge(read[BatchNorm::kVariance]));
  CHECK(g.variables()[*g.variable(read[BatchNorm::kVariance])].name == "bn_moving_var");
}

TEST_CASE("a rule is that of the variable which a node reads", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId fc = g.add("fc", FullyConnected{.outputs = 2}, {data});
  g.set_rule(fc, FullyConnected::kBias, {.learning_rate = 2, .weight_decay = {}, .initial = {}});
  CHECK_THROWS_AS(g.set_rule(fc, 0, {}), CheckFailed);  // a node computes it
  g.add("softmax", SoftmaxOutput{}, {fc});
  const Shapes shapes = infer_shapes(g, {1, 2, 2}).value();
  CHECK_FALSE(shapes.parameters[0].rule.learning_rate);
  CHECK(shapes.parameters[1].name == "fc_bias");
  CHECK(shapes.parameters[1].rule.learning_rate == 2);
}

TEST_CASE("the readers of a node are those that name it, once for each time", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId twice = g.add("twice", Add{}, {data, data});
  const NodeId sum = g.add("sum", Add{}, {twice, data});
  g.add("softmax", SoftmaxOutput{}, {sum});
  CHECK(readers(g) == std::vector<std::vector<NodeId>>{{twice, twice, sum}, {sum}, {3}, {}});
}

// No gradient is needed before the first node that learns. A parallel branch without parameters has none either.
TEST_CASE("a gradient is wanted from the first parameters on", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId relu = g.add("relu", Activation{}, {data});
  const NodeId convolution = g.add("convolution", Convolution{.filters = 1}, {relu});
  const NodeId sum = g.add("sum", Add{}, {relu, convolution});
  const NodeId flat = g.add("flatten", Flatten{}, {sum});
  g.add("softmax", SoftmaxOutput{}, {flat});
  const Shapes shapes = infer_shapes(g, {1, 2, 2}).value();
  CHECK(wants_gradient(g, shapes) == std::vector<char>{0, 0, 1, 1, 1, 1});
}

namespace {

// Two convolutions with one weight, and a loss after each of them. `second`: the number of filters of the second one.
Graph with_shared_weight(int64_t second = 2) {
  Graph g;
  const Convolution conv{.filters = 2, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = false};
  const NodeId data = g.add("data", Input{}, {});
  const NodeId a = g.add("a", conv, {data});
  const TensorId weight = g.node(a).inputs[Convolution::kWeight];
  Convolution again = conv;
  again.filters = second;
  const NodeId b = g.add_reader("b", again, {g.tensor(Edge{a}), weight});
  const NodeId flat_a = g.add("flat_a", Flatten{}, {a});
  const NodeId flat_b = g.add("flat_b", Flatten{}, {b});
  const NodeId labels_of = g.add("softmax", SoftmaxOutput{}, {flat_b});
  g.add_head(labels_of);
  g.add_head(g.add_reader("early", SoftmaxOutput{}, {g.tensor(Edge{flat_a}), g.node(labels_of).inputs[1]}));
  g.add("unused", Identity{}, {b});
  return g;
}

}  // namespace

TEST_CASE("a variable that several nodes read is one parameter", "[graph]") {
  const Graph g = with_shared_weight();
  CHECK(g.variables().size() == 3);  // the images, the weight and the labels
  const Shapes shapes = infer_shapes(g, {2, 4, 4}).value();
  REQUIRE(shapes.parameters.size() == 1);
  const ParameterInfo& weight = shapes.parameters[0];
  CHECK(weight.name == "a_weight");
  CHECK(weight.uses == std::vector<TensorUse>{{1, Convolution::kWeight}, {2, Convolution::kWeight}});
  CHECK(shapes.position == std::vector<size_t>{Shapes::kNowhere, 0, Shapes::kNowhere});
  CHECK(multiply_accumulates(g, shapes) == 2 * (2 * 2 * 3 * 3) * (4 * 4));
  CHECK(wants_gradient(g, shapes) == std::vector<char>{0, 1, 1, 1, 1, 1, 1, 0});  // no loss reads the last one
}

TEST_CASE("all heads are computed, the first one's nodes first", "[graph]") {
  const Graph g = with_shared_weight();
  CHECK(g.heads() == std::vector<NodeId>{5, 6});
  CHECK(g.output() == 5);
  CHECK(g.canonical_order() == std::vector<NodeId>{0, 1, 2, 4, 5, 3, 6});
}

TEST_CASE("nodes that need different shapes of a variable are refused", "[graph]") {
  const auto shapes = infer_shapes(with_shared_weight(3), {2, 4, 4});
  REQUIRE_FALSE(shapes);
  CHECK(shapes.error().code == Code::kUsage);
  CHECK(shapes.error().message ==
        "'a_weight' would have the shape (2, 2, 3, 3) for node 'a' and (3, 2, 3, 3) for node 'b'");
}

TEST_CASE("a network tells its inputs, the labels of its losses and its results", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {}), more = g.add("more", Input{}, {});
  const NodeId both = g.add("both", Concat{}, {g.add("f", FullyConnected{.outputs = 2}, {data}), more});
  g.add_head(g.add("ten", SoftmaxOutput{}, {g.add("fc10", FullyConnected{.outputs = 10}, {both})}));
  g.add_head(g.add("five", SoftmaxOutput{}, {g.add("fc5", FullyConnected{.outputs = 5}, {both})}));
  const TensorId ten_label = g.node(g.heads()[0]).inputs.back();
  const NodeId fc3 = g.add("fc3", FullyConnected{.outputs = 3}, {both});
  g.add_head(g.add_reader("three", SoftmaxOutput{}, {g.tensor(Edge{fc3}), ten_label}));
  const std::vector<Shape> inputs = {{1, 2, 2}, {7}};
  const Shapes shapes = infer_shapes(g, inputs).value();
  REQUIRE(shapes.inputs.size() == 2);
  CHECK(shapes.inputs[1].name == "more");
  CHECK(shapes.inputs[1].shape == Shape{7});
  CHECK(shapes.output[both] == Shape{9});
  REQUIRE(shapes.labels.size() == 2);
  CHECK(shapes.labels[0].name == "ten_label");
  CHECK(shapes.labels[0].classes == 3);  // those that every loss has
  CHECK(shapes.labels[1].name == "five_label");
  CHECK(shapes.labels[1].classes == 5);
  REQUIRE(shapes.heads.size() == 3);
  CHECK(shapes.heads[2].name == "three");
  CHECK(shapes.heads[2].outputs == 3);
  CHECK(shapes.heads[2].label == 0);
  CHECK(shapes.heads[1].label == 1);
  CHECK(infer_shapes(g, {1, 2, 2}).error().message == "the network has 2 inputs (data, more), but the data have 1");
}

TEST_CASE("a variable that does not fit its place is a bug", "[graph]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId fc = g.add("fc", FullyConnected{.outputs = 2}, {data});
  const TensorId x = g.tensor(Edge{fc}), bias = g.node(fc).inputs[FullyConnected::kBias];
  CHECK_THROWS_AS(g.add_reader("norm", BatchNorm{}, {x, bias, bias, bias}), CheckFailed);  // learned for the mean
  CHECK_THROWS_AS(g.add_reader("relu", Activation{}, {x, bias}), CheckFailed);             // too many
  CHECK_THROWS_AS(g.add_reader("sum", Add{}, {x, bias}), CheckFailed);                     // a variable as data
  CHECK_THROWS_AS(g.add_variable({.name = "fc_bias"}), CheckFailed);
  CHECK_THROWS_AS(g.add_head(7), CheckFailed);
  CHECK(g.nodes().size() == 2);
}
