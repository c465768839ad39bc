
#include "graph/graph.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::graph;

namespace {

// data -> op -> fully connected -> softmax
Result<Shapes> infer(const Op& op, const Shape& image) {
  Graph g;
  const NodeId x = g.add("data", Input{}, {});
  const NodeId y = g.add("op", op, {x});
  const NodeId fc = g.add("fc", FullyConnected{10}, {y});
  g.add("softmax", SoftmaxOutput{}, {fc});
  return infer_shapes(g, image);
}

std::string message(const Result<Shapes>& result) {
  REQUIRE(!result);
  CHECK(result.error().code == Code::kUsage);
  return result.error().message;
}

int64_t pooled(int64_t size, int64_t kernel, int64_t stride, int64_t pad, Pooling::Rounding rounding) {
  const Pooling op{.kernel_h = kernel, .kernel_w = 1, .stride_h = stride, .pad_h = pad, .rounding = rounding};
  return infer(op, {1, size, 1}).value().output[1][1];
}

}  // namespace

// Expected sizes by each of the three rounding rules.
TEST_CASE("pooling sizes follow the three rules", "[graph]") {
  using R = Pooling::Rounding;
  CHECK(pooled(112, 3, 2, 0, R::kValid) == 55);
  CHECK(pooled(112, 3, 2, 0, R::kFull) == 56);
  CHECK(pooled(112, 3, 2, 0, R::kV07) == 56);
  CHECK(pooled(56, 3, 2, 0, R::kV07) == 28);
  CHECK(pooled(4, 3, 2, 0, R::kFull) == 2);
  CHECK(pooled(4, 3, 2, 1, R::kValid) == 2);
  CHECK(pooled(4, 3, 2, 1, R::kFull) == 3);
  CHECK(pooled(28, 3, 2, 1, R::kValid) == 14);
  CHECK(pooled(7, 7, 1, 0, R::kValid) == 1);
  // If the kernel is smaller than the stride, the last window of kV07 starts inside the input; with kFull it may not.
  CHECK(pooled(6, 1, 3, 0, R::kV07) == 2);
  CHECK_THAT(message(infer(Pooling{.kernel_h = 1, .kernel_w = 1, .stride_h = 3, .rounding = R::kFull}, {1, 6, 1})),
             Catch::Contains("starts outside the input (1, 6, 1)"));
}

TEST_CASE("a convolution's output and weights have the shapes of its definition", "[graph]") {
  const Shapes shapes =
      infer(Convolution{.filters = 8, .kernel_h = 3, .kernel_w = 7, .stride_h = 2, .pad_h = 1, .pad_w = 3, .groups = 2},
            {4, 9, 9})
          .value();
  CHECK(shapes.output[1] == Shape{8, 5, 9});
  CHECK(shapes.parameters[0].shape == Shape{8, 2, 3, 7});
  CHECK(shapes.parameters[1].shape == Shape{8});
  CHECK(shapes.parameters[0].name == "op_weight");
}

TEST_CASE("shapes that do not fit are refused with node, operator and shapes", "[graph]") {
  CHECK(message(infer(Convolution{.filters = 8, .kernel_h = 5, .kernel_w = 5}, {3, 4, 4})) ==
        "node 'op' (Convolution): kernel 5x5 with pad 0x0 exceeds the input (3, 4, 4)");
  CHECK(message(infer(Convolution{.filters = 8, .groups = 3}, {4, 4, 4})) ==
        "node 'op' (Convolution): the 8 filters and the channels of the input (4, 4, 4) must be multiples of the 3 "
        "groups");
  CHECK_THAT(message(infer(Convolution{}, {3, 4, 4})),
             Catch::StartsWith("node 'op' (Convolution): invalid convolution: 0 filters"));
  CHECK(message(infer(Pooling{.kernel_h = 7, .kernel_w = 7}, {3, 6, 6})) ==
        "node 'op' (Pooling): kernel 7x7 with pad 0x0 exceeds the input (3, 6, 6)");
  CHECK_THAT(message(infer(Pooling{.kernel_h = 2, .kernel_w = 2, .pad_h = 2}, {3, 6, 6})),
             Catch::Contains("invalid pooling") && Catch::Contains("pad 2x0"));
  CHECK_THAT(message(infer(FullyConnected{}, {3, 6, 6})),
             Catch::Contains("(FullyConnected): the number of outputs is 0"));
  CHECK(message(infer(Identity{}, {3, 0, 6})) ==
        "node 'data' (Input): the image shape must be (c, h, w), not (3, 0, 6)");
  CHECK(message(infer(Identity{}, {28, 28})) == "node 'data' (Input): the image shape must be (c, h, w), not (28, 28)");
}

TEST_CASE("joining different shapes is refused", "[graph]") {
  Graph g;
  const NodeId x = g.add("data", Input{}, {});
  const NodeId a = g.add("a", Convolution{.filters = 8}, {x});
  const NodeId b = g.add("b", Convolution{.filters = 4, .stride_h = 2}, {x});
  SECTION("sum") {
    g.add("softmax", SoftmaxOutput{}, {g.add("sum", Add{}, {a, b})});
    CHECK(message(infer_shapes(g, {3, 6, 6})) ==
          "node 'sum' (Add): the inputs (8, 6, 6) and (4, 3, 6) differ in shape");
  }
  SECTION("concat") {
    g.add("softmax", SoftmaxOutput{}, {g.add("all", Concat{}, {a, b})});
    CHECK(message(infer_shapes(g, {3, 6, 6})) ==
          "node 'all' (Concat): the inputs (8, 6, 6) and (4, 3, 6) differ in more than their channels");
  }
  SECTION("softmax of a map") {
    g.add("softmax", SoftmaxOutput{}, {a});
    CHECK(message(infer_shapes(g, {3, 6, 6})) ==
          "node 'softmax' (SoftmaxOutput): the input must be a vector, not (8, 6, 6): flatten it first");
  }
}

TEST_CASE("a graph that does not end in a softmax is a bug", "[graph]") {
  Graph g;
  g.add("data", Input{}, {});
  CHECK_THROWS_AS(infer_shapes(g, {3, 6, 6}), CheckFailed);
  CHECK_THROWS_AS(infer_shapes(Graph{}, {3, 6, 6}), CheckFailed);
}
