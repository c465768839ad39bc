#include "graph/graph.h"

#include <catch2/catch.hpp>
#include <tuple>

#include "graph/flow.h"

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

// No gradient is needed before the first node that learns. A branch without parameters beside it has none either.
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
