#include "graph/graph.h"

#include <catch2/catch.hpp>

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
