#include "graph/fold.h"

#include "graph/models/models.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::graph;
using dtrain::test::must;

namespace {

std::vector<std::string> names_in(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.canonical_order()) names.push_back(graph.node(id).name);
  return names;
}

const Shape kFoldImage = {3, 8, 8};

// data - conv - bn - relu, to which `change` adds what it likes before the fully connected layer and the loss.
template <class Change>
Graph network(bool bias, Change&& change) {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId conv = g.add("conv", Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3, .bias = bias}, {data});
  NodeId x = g.add("relu", Activation{}, {g.add("bn", BatchNorm{}, {conv})});
  x = change(g, conv, x);
  g.add("softmax", SoftmaxOutput{}, {g.add("fc", FullyConnected{.outputs = 5}, {g.add("flat", Flatten{}, {x})})});
  return g;
}

NodeId nothing_else(Graph&, NodeId, NodeId x) {
  return x;
}

size_t folds_of(const Graph& graph) {
  const FoldedGraph folded = fold_batch_norms(graph);
  REQUIRE(infer_shapes(folded.graph, kFoldImage));
  if (folded.folds.empty()) CHECK(names_in(folded.graph) == names_in(graph));
  return folded.folds.size();
}

}  // namespace

TEST_CASE("a batch norm after a convolution or a fully connected layer goes, and the layer gets a bias", "[graph]") {
  for (const bool bias : {false, true}) {
    const FoldedGraph folded = fold_batch_norms(network(bias, nothing_else));
    CHECK(names_in(folded.graph) == std::vector<std::string>{"data", "conv", "relu", "flat", "fc", "softmax"});
    REQUIRE(folded.folds.size() == 1);
    const Fold& fold = folded.folds[0];
    CHECK(fold.weight == "conv_weight");
    CHECK(fold.bias == "conv_bias");
    CHECK(fold.had_bias == bias);
    CHECK(fold.mean == "bn_moving_mean");
    const Shapes shapes = must(infer_shapes(folded.graph, kFoldImage));
    CHECK(shapes.parameters.size() == 4);
    CHECK(shapes.statistics.empty());
  }
  Graph dense;
  NodeId x = dense.add("fc1", FullyConnected{.outputs = 4, .bias = false}, {dense.add("data", Input{}, {})});
  x = dense.add("fc2", FullyConnected{.outputs = 3}, {dense.add("bn", BatchNorm{}, {x})});
  dense.add("softmax", SoftmaxOutput{}, {x});
  CHECK(folds_of(dense) == 1);
}

TEST_CASE("a batch norm stays if something else needs what the layer computes or reads", "[graph]") {
  // Two nodes read the layer's output.
  CHECK(folds_of(network(false, [](Graph& g, NodeId conv, NodeId x) { return g.add("plus", Add{}, {x, conv}); })) == 0);
  // Two batch norms read it.
  CHECK(folds_of(network(false, [](Graph& g, NodeId conv, NodeId x) {
          return g.add("plus", Add{}, {x, g.add("bn2", BatchNorm{}, {conv})});
        })) == 0);
  // The batch norm reads what no layer with weights computes.
  CHECK(folds_of(network(true, [](Graph& g, NodeId, NodeId x) { return g.add("bn2", BatchNorm{}, {x}); })) == 1);
  // Another layer reads the weight.
  CHECK(folds_of(network(false, [](Graph& g, NodeId conv, NodeId x) {
          const TensorId images = g.tensor(Edge{g.node(conv).data_inputs[0]});
          const NodeId twin = g.add_reader("twin", g.node(conv).op, {images, g.node(conv).inputs[1]});
          return g.add("plus", Add{}, {x, twin});
        })) == 0);
  // The name of the bias is taken.
  CHECK(folds_of(network(false, [](Graph& g, NodeId, NodeId x) {
          const TensorId taken = g.add_variable({.name = "conv_bias", .kind = ParameterKind::kBeta});
          const TensorId gamma = g.add_variable({.name = "g", .kind = ParameterKind::kGamma});
          return g.add_reader("bn2", BatchNorm{}, {g.tensor(Edge{x}), gamma, taken});
        })) == 0);
  // The layer's output is a result.
  Graph heads = network(false, nothing_else);
  heads.add_head(heads.nodes().size() - 1);
  heads.add_head(1);
  CHECK(fold_batch_norms(heads).folds.empty());
  CHECK(fold_batch_norms(heads).graph.heads().size() == 2);
}

TEST_CASE("networks of batch norms before their convolutions keep some, and others keep none", "[graph]") {
  struct Case {
    const char* name;
    Shape image;
    size_t norms, folds;
  };
  for (const Case& c : {Case{"resnet-50", {3, 224, 224}, 51, 33}, Case{"resnet-v1-50", {3, 224, 224}, 53, 53},
                        Case{"inception-bn", {3, 224, 224}, 69, 69}, Case{"lenet", {1, 28, 28}, 0, 0}}) {
    INFO(c.name);
    const Graph graph = must(build_model({.network = c.name, .num_classes = 10, .image = c.image}));
    const FoldedGraph folded = fold_batch_norms(graph);
    size_t norms = 0;
    for (const Node& node : graph.nodes()) norms += std::holds_alternative<BatchNorm>(node.op) ? 1 : 0;
    CHECK(norms == c.norms);
    CHECK(folded.folds.size() == c.folds);
    const Shapes before = must(infer_shapes(graph, c.image)), after = must(infer_shapes(folded.graph, c.image));
    CHECK(before.heads[0].outputs == after.heads[0].outputs);
    CHECK(multiply_accumulates(graph, before) == multiply_accumulates(folded.graph, after));
  }
}
