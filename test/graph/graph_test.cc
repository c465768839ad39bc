#include "graph/graph.h"

#include <catch2/catch.hpp>

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
