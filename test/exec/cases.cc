#include "cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>

#include "base/random.h"
#include "exec/contract.h"

namespace dtrain::exec::test {

namespace {

using namespace dtrain::graph;

constexpr int64_t kClasses = 4;
// The bias of "head" for class 0 with integers: e^-262144 is 0 in any type, and float32 sums of this size still resolve
// 1/16.
constexpr float kDecisive = 262144;

Convolution conv3x3(int64_t filters, int64_t stride = 1) {
  return {.filters = filters,
          .kernel_h = 3,
          .kernel_w = 3,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = 1,
          .pad_w = 1,
          .bias = false};
}
Convolution conv1x1(int64_t filters, int64_t stride = 1) {
  return {.filters = filters, .stride_h = stride, .stride_w = stride, .bias = false};
}
Pooling window(Pooling::Kind kind, int64_t kernel, int64_t stride, int64_t pad,
               Pooling::Rounding rounding = Pooling::Rounding::kValid,
               Pooling::Divisor divisor = Pooling::Divisor::kPadded) {
  return {.kind = kind,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad,
          .rounding = rounding,
          .divisor = divisor};
}
constexpr auto kMax = Pooling::Kind::kMax;
constexpr auto kAverage = Pooling::Kind::kAverage;
constexpr auto kSum = Pooling::Kind::kSum;
constexpr auto kFull = Pooling::Rounding::kFull;
constexpr auto kV07 = Pooling::Rounding::kV07;
constexpr auto kValid = Pooling::Rounding::kValid;
constexpr auto kKernel = Pooling::Divisor::kKernel, kReal = Pooling::Divisor::kReal;

// A node that reads the same variables as `like`, for the same operator or another one.
NodeId add_like(Graph& graph, const std::string& name, NodeId like, NodeId x, std::optional<Op> op = std::nullopt) {
  const Node& model = graph.node(like);
  std::vector<TensorId> given = model.inputs;
  given[0] = graph.tensor(Edge{x});
  return graph.add_reader(name, op.value_or(model.op), std::move(given));
}

// Freezes all that these nodes learn.
void freeze(Graph& graph, const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) {
    for (const TensorId input : std::vector<TensorId>(graph.node(id).inputs)) {
      const std::optional<VariableId> variable = graph.variable(input);
      if (variable && graph.variables()[*variable].role == Variable::Role::kLearned) graph.freeze(*variable);
    }
  }
}

NodeId id_of(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes(), name, &Node::name);
  return static_cast<NodeId>(found - graph.nodes().begin());
}

// Builds the network around the operators of one case.
class Net {
 public:
  explicit Net(const Shape& image, bool first = false) {
    x_ = graph_.add("data", Input{}, {});
    if (!first) x_ = graph_.add("before", conv1x1(image[0]), {x_});
  }
  NodeId x() const { return x_; }
  NodeId add(const std::string& name, Op op, const std::vector<NodeId>& inputs) { return graph_.add(name, op, inputs); }
  // A node like `like` that also reads the same variables.
  NodeId share(const std::string& name, NodeId like, NodeId x, std::optional<Op> op = std::nullopt) {
    return add_like(graph_, name, like, x, std::move(op));
  }
  Graph finish(NodeId y, int64_t classes = kClasses, SoftmaxOutput softmax = {}) {
    const NodeId flat = graph_.add("flatten", Flatten{}, {y});
    const NodeId head = graph_.add("head", FullyConnected{.outputs = classes}, {flat});
    graph_.add("softmax", softmax, {head});
    return std::move(graph_);
  }

 private:
  Graph graph_;
  NodeId x_;
};

class Table {
 public:
  std::vector<Case> take() { return std::move(cases_); }
  Case& last(size_t back) { return cases_.at(cases_.size() - back); }
  Case& put(std::string name, const Shape& image, Graph graph) {
    return cases_.emplace_back(Case{.name = std::move(name), .graph = std::move(graph), .image = image});
  }
  // One operator between "before" and "head".
  Case& one(std::string name, const Shape& image, Op op) {
    Net net(image);
    return put(std::move(name), image, net.finish(net.add("op", op, {net.x()})));
  }
  Case& first(std::string name, const Shape& image, Op op) {
    Net net(image, true);
    return put(std::move(name), image, net.finish(net.add("op", op, {net.x()})));
  }

 private:
  std::vector<Case> cases_;
};

// Layers of Inception and ResNet with fewer channels and smaller maps, odd sizes, and edge cases of the rules.
void convolutions(Table& t) {
  Convolution biased = conv3x3(24);
  biased.bias = true;
  t.first("first convolution 3x3, inception-28 conv1", {3, 12, 12}, biased);
  t.first("first convolution 7x7 stride 2, resnet conv0", {3, 23, 21},
          Convolution{.filters = 16,
                      .kernel_h = 7,
                      .kernel_w = 7,
                      .stride_h = 2,
                      .stride_w = 2,
                      .pad_h = 3,
                      .pad_w = 3,
                      .bias = false});
  t.first("first convolution 5x5, lenet", {1, 28, 28}, Convolution{.filters = 20, .kernel_h = 5, .kernel_w = 5});
  t.one("convolution 5x5, lenet's second", {20, 12, 12}, Convolution{.filters = 50, .kernel_h = 5, .kernel_w = 5});
  t.one("convolution 5x5 pad 2, 3conv", {32, 7, 7},
        Convolution{.filters = 16, .kernel_h = 5, .kernel_w = 5, .pad_h = 2, .pad_w = 2});
  t.one("convolution 1x1", {24, 7, 7}, conv1x1(32));
  t.one("convolution 1x1 with bias", {16, 14, 14}, Convolution{.filters = 48});
  t.one("convolution 1x1 stride 2, a projection of even size", {16, 8, 8}, conv1x1(32, 2));
  t.one("convolution 1x1 stride 2, a projection of odd size", {16, 7, 7}, conv1x1(32, 2));
  t.one("convolution 3x3", {32, 14, 14}, conv3x3(48));
  t.one("convolution 3x3 with bias, odd size", {16, 7, 7}, biased);
  t.one("convolution 3x3, 64 channels", {64, 14, 14}, conv3x3(64)).smooth = false;
  t.one("convolution 3x3 stride 2, even size", {20, 14, 14}, conv3x3(24, 2));
  t.one("convolution 3x3 stride 2, odd size", {20, 7, 7}, conv3x3(24, 2));
  t.one("convolution 3x3 stride 2 without pad", {16, 9, 9},
        Convolution{.filters = 16, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2});
  t.one("convolution 1x7", {16, 9, 9}, Convolution{.filters = 16, .kernel_w = 7, .pad_w = 3, .bias = false});
  t.one("convolution 7x1", {16, 9, 9}, Convolution{.filters = 16, .kernel_h = 7, .pad_h = 3, .bias = false});
  t.one("convolution with strides and pads that differ", {5, 9, 11},
        Convolution{.filters = 7, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 3, .pad_h = 1, .pad_w = 0});
  t.one("convolution of 17 channels to 33", {17, 5, 5}, conv3x3(33));
  t.one("convolution of 1 channel to 1", {1, 6, 6}, conv3x3(1));
  t.one("convolution of a 1x1 map", {16, 1, 1}, conv3x3(8));
  t.one("convolution whose kernel is the map", {8, 4, 4}, Convolution{.filters = 12, .kernel_h = 4, .kernel_w = 4});
  t.one("convolution in 4 groups", {32, 7, 7},
        Convolution{.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .groups = 4});
  t.one("convolution in groups of 3 channels", {9, 6, 6},
        Convolution{.filters = 6, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .groups = 3});
  t.one("convolution, depthwise", {16, 7, 7},
        Convolution{.filters = 16, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .groups = 16, .bias = false});
  t.one("convolution of one image", {16, 7, 7}, conv3x3(16)).batch = 1;
  t.one("convolution of five images", {16, 7, 7}, conv3x3(16)).batch = 5;
}

void fully_connected(Table& t) {
  t.one("fully connected", {32, 3, 3}, FullyConnected{.outputs = 50});
  t.one("fully connected without bias", {32, 1, 1}, FullyConnected{.outputs = 16, .bias = false}).batch = 5;
  t.one("fully connected of odd sizes", {7, 3, 5}, FullyConnected{.outputs = 13}).batch = 1;
  t.first("first fully connected, mlp", {1, 28, 28}, FullyConnected{.outputs = 32}).batch = 16;
  Net chain({16, 2, 2});
  const NodeId fc = chain.add("fc1", FullyConnected{.outputs = 24}, {chain.x()});
  const NodeId relu = chain.add("relu1", Activation{}, {fc});
  t.put("fully connected, relu, fully connected", {16, 2, 2},
        chain.finish(chain.add("fc2", FullyConnected{.outputs = 12}, {relu})))
      .smooth = false;
}

void batch_norms(Table& t) {
  const auto put = [&](std::string name, const Shape& image, BatchNorm op, int64_t batch) {
    Case& c = t.one(std::move(name), image, op);
    c.exact = false;
    c.batch = batch;
  };
  put("batch norm", {32, 7, 7}, {.epsilon = 2e-5, .fix_gamma = false}, 4);
  put("batch norm with gamma fixed", {24, 6, 6}, {.epsilon = 1e-3, .fix_gamma = true}, 4);
  put("batch norm by global statistics", {32, 7, 7}, {.fix_gamma = false, .global_statistics = true}, 4);
  put("batch norm by global statistics with gamma fixed", {5, 3, 7}, {.global_statistics = true}, 3);
  put("batch norm of odd sizes", {5, 3, 7}, {.epsilon = 1e-5 + 1e-10, .fix_gamma = false}, 3);
  put("batch norm of 33 channels, momentum 0.5", {33, 4, 4}, {.epsilon = 1e-3, .momentum = 0.5, .fix_gamma = false}, 2);
  put("batch norm of 1x1 maps", {16, 1, 1}, {.epsilon = 1e-3, .fix_gamma = false}, 8);
  put("batch norm of one image", {8, 6, 6}, {.epsilon = 1e-3, .fix_gamma = false}, 1);
  Case& data = t.first("first batch norm, bn_data", {3, 10, 10}, BatchNorm{.epsilon = 2e-5, .fix_gamma = true});
  data.exact = false;
  data.batch = 4;
  Net net({16, 2, 2});
  const NodeId fc = net.add("fc1", FullyConnected{.outputs = 20}, {net.x()});
  Case& vectors =
      t.put("batch norm of vectors", {16, 2, 2}, net.finish(net.add("op", BatchNorm{.fix_gamma = false}, {fc})));
  vectors.exact = false;
  vectors.batch = 8;
}

void activations(Table& t) {
  using Kind = Activation::Kind;
  t.one("relu", {16, 7, 7}, Activation{});
  t.one("relu of odd sizes", {5, 3, 7}, Activation{});
  for (const auto& [name, kind] : {std::pair{"tanh", Kind::kTanh},
                                   {"sigmoid", Kind::kSigmoid},
                                   {"softrelu", Kind::kSoftrelu},
                                   {"softsign", Kind::kSoftsign}}) {
    t.one(name, {20, 6, 6}, Activation{kind}).exact = false;
    t.one(std::string(name) + " of odd sizes", {5, 3, 7}, Activation{kind}).exact = false;
  }
  Net net({16, 3, 3});
  const NodeId fc = net.add("fc1", FullyConnected{.outputs = 50}, {net.x()});
  t.put("tanh of vectors", {16, 3, 3}, net.finish(net.add("op", Activation{Kind::kTanh}, {fc}))).exact = false;
}

void max_poolings(Table& t) {
  t.one("max pooling 2x2 stride 2, lenet", {20, 12, 12}, window(kMax, 2, 2, 0));
  t.one("max pooling 2x2 stride 2 of odd size", {20, 7, 7}, window(kMax, 2, 2, 0));
  t.one("max pooling 3x3 stride 2, 3conv", {16, 14, 14}, window(kMax, 3, 2, 0));
  t.one("max pooling 3x3 stride 2 pad 1, even size", {16, 8, 8}, window(kMax, 3, 2, 1));
  t.one("max pooling 3x3 stride 2 pad 1, odd size", {16, 7, 7}, window(kMax, 3, 2, 1));
  t.one("max pooling 3x3 stride 1 pad 1", {16, 7, 7}, window(kMax, 3, 1, 1));
  t.one("max pooling full", {16, 8, 8}, window(kMax, 3, 2, 0, kFull));
  t.one("max pooling full pad 1", {5, 8, 8}, window(kMax, 3, 2, 1, kFull));
  t.one("max pooling of v0.7, even size", {16, 8, 8}, window(kMax, 3, 2, 0, kV07));
  t.one("max pooling of v0.7, odd size", {16, 7, 7}, window(kMax, 3, 2, 0, kV07));
  t.one("max pooling of v0.7 pad 1", {5, 6, 6}, window(kMax, 3, 2, 1, kV07));
  t.one("max pooling with sides that differ", {5, 9, 11},
        Pooling{.kind = kMax, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 3, .pad_h = 1, .pad_w = 0});
  t.one("max pooling of everything", {16, 5, 5}, Pooling{.kind = kMax, .global = true});
}

void average_poolings(Table& t) {
  const auto inexact = [&](std::string name, const Shape& image, Pooling op) {
    t.one(std::move(name), image, op).exact = false;
  };
  t.one("average pooling 2x2 stride 2", {16, 8, 8}, window(kAverage, 2, 2, 0));
  t.one("average pooling 2x2 full, clipped", {16, 7, 7}, window(kAverage, 2, 2, 0, kFull));
  t.one("average pooling 2x2 of v0.7, always by 4", {16, 7, 7}, window(kAverage, 2, 2, 0, kV07, kKernel));
  inexact("average pooling 3x3 stride 1 pad 1, inception", {16, 7, 7}, window(kAverage, 3, 1, 1));
  inexact("average pooling 3x3 stride 2, 3conv", {16, 13, 13}, window(kAverage, 3, 2, 0));
  inexact("average pooling 3x3 stride 2 pad 1", {5, 8, 8}, window(kAverage, 3, 2, 1));
  inexact("average pooling full, clipped", {16, 8, 8}, window(kAverage, 3, 2, 0, kFull));
  inexact("average pooling full pad 1", {16, 8, 8}, window(kAverage, 3, 2, 1, kFull));
  inexact("average pooling full pad 1, always by 9", {16, 8, 8}, window(kAverage, 3, 2, 1, kFull, kKernel));
  inexact("average pooling of v0.7, always by 9", {16, 8, 8}, window(kAverage, 3, 2, 0, kV07, kKernel));
  inexact("average pooling 7x7 of the whole map", {24, 7, 7}, window(kAverage, 7, 1, 0));
  inexact("average pooling of everything", {24, 7, 7}, Pooling{.kind = kAverage, .global = true});
  t.one("average pooling of everything, 4x4", {24, 4, 4}, Pooling{.kind = kAverage, .global = true});
  t.one("average pooling of a 1x1 map", {24, 1, 1}, Pooling{.kind = kAverage, .global = true});
  inexact(
      "average pooling with sides that differ", {5, 9, 11},
      Pooling{.kind = kAverage, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 3, .pad_h = 1, .pad_w = 0});
}

// Padded cells are left out of the divisor.
void poolings_of_real_cells(Table& t) {
  const auto inexact = [&](std::string name, const Shape& image, Pooling op) {
    t.one(std::move(name), image, op).exact = false;
  };
  inexact("average of real cells, 3x3 stride 1 pad 1", {16, 7, 7}, window(kAverage, 3, 1, 1, kValid, kReal));
  inexact("average of real cells, full, pad 1", {5, 8, 8}, window(kAverage, 3, 2, 1, kFull, kReal));
  inexact("average of real cells, sides that differ", {16, 9, 11},
          Pooling{.kind = kAverage,
                  .kernel_h = 3,
                  .kernel_w = 2,
                  .stride_h = 2,
                  .stride_w = 3,
                  .pad_h = 2,
                  .pad_w = 1,
                  .divisor = kReal});
}

void sum_poolings(Table& t) {
  t.one("sum pooling 2x2 stride 2", {16, 8, 8}, window(kSum, 2, 2, 0));
  t.one("sum pooling 3x3 stride 1 pad 1", {16, 7, 7}, window(kSum, 3, 1, 1));
  t.one("sum pooling full, clipped", {5, 8, 8}, window(kSum, 3, 2, 0, kFull));
  t.one("sum pooling of everything", {24, 4, 4}, Pooling{.kind = kSum, .global = true});
}

void dilated_convolutions(Table& t) {
  Convolution op{.filters = 24, .kernel_h = 3, .kernel_w = 3, .pad_h = 2, .pad_w = 2, .dilation_h = 2, .dilation_w = 2};
  t.one("convolution, dilation 2", {16, 9, 9}, op);
  op.stride_h = op.stride_w = 2;
  t.one("convolution, dilation 2, stride 2", {16, 9, 9}, op);
  op.filters = 32;
  op.stride_h = op.stride_w = 1;
  t.one("convolution of 32 channels, dilation 2", {32, 9, 9}, op);  // no Winograd
  op.groups = 2;
  t.one("convolution of groups, dilation 2", {32, 9, 9}, op);
  t.one("convolution, dilations that differ", {5, 11, 9},
        Convolution{.filters = 7, .kernel_h = 3, .kernel_w = 2, .pad_h = 1, .dilation_h = 3, .dilation_w = 4});
  t.first("first convolution, dilation 3", {3, 12, 12},
          Convolution{.filters = 16, .kernel_h = 3, .kernel_w = 3, .dilation_h = 3, .dilation_w = 3});
}

void joins(Table& t) {
  const Shape image = {16, 6, 6};
  Net two(image);
  const NodeId a = two.add("a", conv1x1(8), {two.x()}), b = two.add("b", conv3x3(24), {two.x()});
  t.put("concat of two", image, two.finish(two.add("op", Concat{}, {a, b})));

  Net four(image);
  std::vector<NodeId> branches;
  for (const int64_t filters : {3, 16, 5, 17}) {
    branches.push_back(four.add("branch" + std::to_string(filters), conv1x1(filters), {four.x()}));
  }
  t.put("concat of four with odd channels", image, four.finish(four.add("op", Concat{}, branches)));

  Net pooled(image);
  const NodeId down = pooled.add("a", conv3x3(12, 2), {pooled.x()});
  const NodeId pool = pooled.add("b", window(kMax, 3, 2, 1), {pooled.x()});
  t.put("concat of a convolution and a pooling of one input", image,
        pooled.finish(pooled.add("op", Concat{}, {down, pool})));

  Net twice(image);
  t.put("concat of one input with itself", image, twice.finish(twice.add("op", Concat{}, {twice.x(), twice.x()})));

  Net vectors(image);
  const NodeId f = vectors.add("f", FullyConnected{.outputs = 5}, {vectors.x()});
  const NodeId g = vectors.add("g", FullyConnected{.outputs = 9}, {vectors.x()});
  t.put("concat of vectors", image, vectors.finish(vectors.add("op", Concat{}, {f, g})));

  Net residual(image);
  const NodeId branch = residual.add("branch", conv3x3(16), {residual.x()});
  t.put("sum of a branch and its input", image, residual.finish(residual.add("op", Add{}, {branch, residual.x()})));

  Net three(image);
  const NodeId p = three.add("p", conv1x1(16), {three.x()}), q = three.add("q", conv1x1(16), {three.x()});
  t.put("sum of three", image, three.finish(three.add("op", Add{}, {p, q, three.x()})));

  Net doubled({5, 3, 7});
  t.put("sum of one input with itself", {5, 3, 7},
        doubled.finish(doubled.add("op", Add{}, {doubled.x(), doubled.x()})));

  t.one("flatten", {5, 3, 7}, Flatten{});
  t.one("identity", {16, 6, 6}, Identity{});
  t.first("first identity", {3, 6, 6}, Identity{});
  t.one("half of a map", {16, 6, 6}, Scale{0.5});
  t.one("minus twice a map of odd sizes", {5, 3, 7}, Scale{-2});
  t.one("a third of a map", {16, 6, 6}, Scale{1.0 / 3}).exact = false;
  t.first("first scale", {3, 6, 6}, Scale{0.5});
  Net scaled(image);
  t.put("half of vectors", image,
        scaled.finish(scaled.add("op", Scale{0.5}, {scaled.add("f", FullyConnected{.outputs = 20}, {scaled.x()})})));

  // cross: two streams, with their mean added to both.
  Net streams(image);
  const NodeId l1 = streams.add("l1", conv1x1(16), {streams.x()}), l2 = streams.add("l2", conv1x1(16), {streams.x()});
  const NodeId mean = streams.add("mean", Scale{0.5}, {streams.add("both", Add{}, {l1, l2})});
  const NodeId x1 = streams.add("x1", Activation{}, {streams.add("sum1", Add{}, {mean, l1})});
  const NodeId x2 = streams.add("x2", Activation{}, {streams.add("sum2", Add{}, {mean, l2})});
  t.put("mean of two streams in both", image, streams.finish(streams.add("op", Add{}, {x1, x2}))).smooth = false;
}

void dropouts(Table& t) {
  t.one("dropout of half of a map", {16, 6, 6}, Dropout{0.5});
  t.one("dropout of three quarters of a map of odd sizes", {5, 3, 7}, Dropout{0.75});
  t.one("dropout of a tenth", {24, 6, 6}, Dropout{0.1}).exact = false;
  t.one("dropout of nothing", {16, 6, 6}, Dropout{0});
  t.first("first dropout", {3, 6, 6}, Dropout{0.5});
  const Shape image = {16, 6, 6};
  Net flat(image);
  t.put("dropout of a flattened map", image,
        flat.finish(flat.add("op", Dropout{0.5}, {flat.add("flat", Flatten{}, {flat.x()})})));
  Net chain(image);
  const NodeId f = chain.add("f", FullyConnected{.outputs = 20}, {chain.x()});
  const NodeId dropped = chain.add("drop", Dropout{0.5}, {chain.add("relu", Activation{}, {f})});
  const NodeId g = chain.add("g", FullyConnected{.outputs = 20}, {dropped});
  t.put("two dropouts of vectors", image, chain.finish(chain.add("op", Dropout{0.5}, {g}))).smooth = false;
  Net twice(image);
  const NodeId d = twice.add("d", Dropout{0.5}, {twice.x()});
  t.put("a map with and without dropout", image, twice.finish(twice.add("op", Add{}, {d, twice.x()})));
}

void response_norms(Table& t) {
  const auto put = [&](std::string name, const Shape& image, LocalResponseNorm op) {
    t.one(std::move(name), image, op).exact = false;
  };
  put("local response norm, alexnet", {32, 7, 7}, {});
  put("local response norm of strong responses", {16, 6, 6}, {.size = 5, .alpha = 0.5, .beta = 0.75, .k = 1});
  put("local response norm of 3 channels, odd sizes", {5, 3, 7}, {.size = 3, .alpha = 1, .beta = 0.5, .k = 2});
  put("local response norm of more channels than there are", {3, 4, 4}, {.size = 7, .alpha = 1, .beta = 1, .k = 1});
  put("local response norm of single channels", {24, 4, 4}, {.size = 1, .alpha = 0.5, .beta = 0.75, .k = 2});
  t.first("first local response norm", {3, 6, 6}, LocalResponseNorm{.size = 3, .alpha = 0.1}).exact = false;
}

void spatial_transformers(Table& t) {
  const auto put = [&](std::string name, const Shape& image, SpatialTransformer op, bool first) {
    Net net(image, first);
    const NodeId numbers = net.add("numbers", FullyConnected{.outputs = 6}, {net.x()});
    t.put(std::move(name), image, net.finish(net.add("op", op, {net.x(), numbers}))).exact = false;
  };
  put("spatial transformer", {16, 6, 6}, {6, 6}, false);
  put("spatial transformer to another size", {5, 7, 9}, {4, 11}, false);
  put("first spatial transformer", {1, 12, 12}, {12, 12}, true);
}

void softmaxes(Table& t) {
  const auto put = [&](std::string name, int64_t classes, SoftmaxOutput op, bool exact, int64_t batch) {
    Net net({8, 2, 2});
    Case& c = t.put(std::move(name), {8, 2, 2}, net.finish(net.x(), classes, op));
    c.exact = exact;
    c.batch = batch;
  };
  put("softmax of 2 classes", 2, {}, true, 3);
  put("softmax of 100 classes", 100, {}, true, 7);
  put("softmax with smoothing", 10, {.smooth_alpha = 0.1}, false, 4);
  put("softmax with half the gradient", 10, {.gradient_scale = 0.5}, true, 3);
  put("softmax with the gradient of an image", 10, {.gradient_scale = 2, .per_image = true}, true, 4);
  put("softmax with smoothing and a scale", 10, {.smooth_alpha = 0.1, .gradient_scale = 3}, false, 4);
}

// Chains that a backend may fuse.
void chains(Table& t) {
  const Shape image = {16, 8, 8};
  Net global(image);
  const NodeId gb = global.add("bn", BatchNorm{.fix_gamma = false, .global_statistics = true}, {global.x()});
  Case& by_global =
      t.put("batch norm by global statistics, relu", image, global.finish(global.add("relu", Activation{}, {gb})));
  by_global.exact = by_global.smooth = false;
  Net global_sum(image);
  const NodeId gs = global_sum.add("bn", BatchNorm{.fix_gamma = false, .global_statistics = true}, {global_sum.x()});
  const NodeId added = global_sum.add("plus", Add{}, {gs, global_sum.x()});
  Case& sum_of_global = t.put("batch norm by global statistics, sum, relu", image,
                              global_sum.finish(global_sum.add("relu", Activation{}, {added})));
  sum_of_global.exact = sum_of_global.smooth = false;

  Net conv(image);
  const NodeId c =
      conv.add("conv", Convolution{.filters = 24, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, {conv.x()});
  const NodeId r = conv.add("relu", Activation{}, {c});
  t.put("convolution, relu, pooling", image, conv.finish(conv.add("pool", window(kMax, 2, 2, 0), {r}))).smooth = false;

  Net normed(image);
  const NodeId nc = normed.add("conv", Convolution{.filters = 24, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
                               {normed.x()});
  const NodeId nb = normed.add("bn", BatchNorm{.fix_gamma = false}, {nc});
  Case& unit = t.put("convolution, batch norm, relu", image, normed.finish(normed.add("relu", Activation{}, {nb})));
  unit.exact = unit.smooth = false;
  unit.batch = 4;

  Net v1(image);
  const NodeId c1 = v1.add("conv1", conv3x3(16), {v1.x()}), b1 = v1.add("bn1", BatchNorm{.fix_gamma = false}, {c1});
  const NodeId r1 = v1.add("relu1", Activation{}, {b1});
  const NodeId c2 = v1.add("conv2", conv3x3(16), {r1}), b2 = v1.add("bn2", BatchNorm{.fix_gamma = false}, {c2});
  const NodeId sum = v1.add("plus", Add{}, {b2, v1.x()});
  Case& post = t.put("residual unit, relu after the sum", image, v1.finish(v1.add("relu2", Activation{}, {sum})));
  post.exact = post.smooth = false;
  post.batch = 4;

  Net v2(image);
  const NodeId bn = v2.add("bn1", BatchNorm{.fix_gamma = false}, {v2.x()}), act = v2.add("relu1", Activation{}, {bn});
  const NodeId body = v2.add("conv1", conv3x3(32, 2), {act}), shortcut = v2.add("sc", conv1x1(32, 2), {act});
  Case& pre = t.put("residual unit, projection of the activated input", image,
                    v2.finish(v2.add("plus", Add{}, {body, shortcut})));
  pre.exact = pre.smooth = false;
  pre.batch = 4;

  Net fan(image);
  const NodeId e = fan.add("relu", Activation{}, {fan.x()});
  const NodeId x1 = fan.add("x1", conv1x1(8), {e}), x3 = fan.add("x3", conv3x3(8), {e});
  const NodeId xp = fan.add("pool", window(kMax, 3, 1, 1), {e}), xr = fan.add("relu2", Activation{}, {x3});
  t.put("four branches of one relu", image, fan.finish(fan.add("op", Concat{}, {x1, xr, xp, e}))).smooth = false;
}

bool ends_with(const std::string& name, const char* suffix) {
  const std::string s = suffix;
  return name.size() >= s.size() && name.compare(name.size() - s.size(), s.size(), s) == 0;
}

void fill_identity(const ParameterSpan& p) {
  const auto channels = static_cast<size_t>(p.shape[0]);
  std::fill(p.weight.begin(), p.weight.end(), 0.0F);
  for (size_t i = 0; i < channels; i++) p.weight[i * channels + i] = 1;
}

void fill_integers(const ParameterSpan& p, RandomStream& random) {
  for (float& x : p.weight) x = static_cast<float>(random.below(5) - 2);
  if (p.name == "head_bias") p.weight[0] = kDecisive;
}

void fill_floats(const ParameterSpan& p, RandomStream& random) {
  const int64_t fan_in = p.shape.size() > 1 ? element_count(p.shape) / p.shape[0] : 1;
  const bool positive = ends_with(p.name, "_gamma") || ends_with(p.name, "_moving_var");
  const double bound = p.shape.size() > 1 ? std::sqrt(3.0 / static_cast<double>(fan_in)) : 0.5;
  for (float& x : p.weight) x = static_cast<float>((positive ? 1.0 : 0.0) + random.uniform(-bound, bound));
}

// Few channels, so that integers stay exact through several layers.
void shared_weights(Table& t) {
  const Shape image = {4, 6, 6};
  Net chain(image);
  const NodeId a = chain.add("a", Convolution{.filters = 4}, {chain.x()});
  t.put("two convolutions share weight and bias", image, chain.finish(chain.share("b", a, a)));

  Net branches(image);
  const NodeId left = branches.add("left", conv3x3(4), {branches.x()});
  const NodeId right = branches.share("right", left, branches.x());
  t.put("two convolutions with one weight read one input", image,
        branches.finish(branches.add("plus", Add{}, {left, right})));

  Net dense({2, 2, 2});
  const NodeId f0 = dense.add("f0", FullyConnected{.outputs = 4}, {dense.x()});
  const NodeId f1 = dense.add("f1", FullyConnected{.outputs = 4}, {f0});
  const NodeId f2 = dense.share("f2", f1, f0);
  t.put("three fully connected layers share weight and bias", {2, 2, 2}, dense.finish(dense.share("f3", f1, f2)));

  Net large({2, 2, 2});  // the CPU has another implementation for these
  const NodeId wide = large.add("wide", FullyConnected{.outputs = 192}, {large.x()});
  const NodeId g1 = large.add("g1", FullyConnected{.outputs = 192}, {wide});
  Case& products = t.put("two large fully connected layers share weight and bias", {2, 2, 2},
                         large.finish(large.share("g2", g1, g1)));
  products.exact = products.smooth = false;

  Net both({4, 2, 2});  // devices store these inputs in different orders
  const NodeId m0 = both.add("m0", FullyConnected{.outputs = 16}, {both.x()});
  t.put("fully connected layers of a map and of a vector share a weight", {4, 2, 2},
        both.finish(both.share("m1", m0, m0)));

  Net grouped({3, 6, 6}, true);  // GPUs pad images of three channels
  const NodeId whole = grouped.add("whole", conv3x3(6), {grouped.x()});
  Convolution halves = conv3x3(6);
  halves.groups = 2;
  t.put("convolutions of one group and of two share a weight", {3, 6, 6},
        grouped.finish(grouped.share("halves", whole, whole, halves)))
      .exact = false;

  Net normed(image);
  const NodeId n1 = normed.add("n1", BatchNorm{.fix_gamma = false}, {normed.x()});
  const NodeId between = normed.add("conv", conv1x1(4), {n1});
  Case& norms = t.put("two batch norms share all", image, normed.finish(normed.share("n2", n1, between)));
  norms.exact = false;
  norms.batch = 4;
}

// Layers that keep their values.
void frozen_layers(Table& t) {
  const Shape image = {4, 6, 6};
  const BatchNorm norm{.fix_gamma = false};
  Net low(image, true);
  const NodeId c1 = low.add("c1", conv3x3(8), {low.x()}), b1 = low.add("b1", norm, {c1});
  const NodeId c2 = low.add("c2", conv3x3(8), {low.add("r1", Activation{}, {b1})}), b2 = low.add("b2", norm, {c2});
  Graph g = low.finish(low.add("plus", Add{}, {b2, b1}));
  freeze(g, {c1, b1});
  t.put("a frozen convolution and batch norm below others", image, std::move(g));

  Net between(image);
  const NodeId d1 = between.add("d1", conv1x1(4), {between.x()}), d2 = between.add("d2", conv1x1(4), {d1});
  const NodeId n2 = between.add("n2", norm, {d2});
  Graph h = between.finish(between.add("d3", conv1x1(4), {n2}));
  freeze(h, {d2, n2});
  t.put("a frozen convolution and batch norm between others", image, std::move(h));
  for (const size_t back : {1, 2}) {
    Case& c = t.last(back);
    c.exact = c.smooth = false;  // the gradients of frozen tensors below all others are 0
    c.batch = 4;
  }
}

// Graphs with several results.
void heads(Table& t) {
  const Shape image = {4, 6, 6};
  Net two(image);
  const NodeId a = two.add("a", conv1x1(4), {two.x()});
  Graph g = two.finish(two.share("b", a, a));
  const NodeId early = g.add("early_flatten", Flatten{}, {a});
  const NodeId early_head = add_like(g, "early_head", id_of(g, "head"), early);
  const NodeId softmax = id_of(g, "softmax");
  g.add_head(softmax);
  g.add_head(add_like(g, "early_softmax", softmax, early_head));
  t.put("two losses with one head and one weight", image, std::move(g));

  Net side(image);
  const NodeId c = side.add("c", conv1x1(4), {side.x()});
  Graph h = side.finish(c);
  h.add_head(id_of(h, "softmax"));
  const NodeId d = add_like(h, "d", c, c);
  h.add_head(h.add("unlearned", FullyConnected{.outputs = 3}, {d}));
  t.put("a branch without a loss", image, std::move(h));

  Net apart(image);
  const NodeId e = apart.add("e", conv1x1(4), {apart.x()});
  Graph i = apart.finish(e);
  i.add_head(id_of(i, "softmax"));
  const NodeId few = i.add("few", FullyConnected{.outputs = 3}, {i.add("few_flatten", Flatten{}, {e})});
  i.add_head(i.add("other", SoftmaxOutput{}, {few}));
  t.put("two losses with labels of their own", image, std::move(i)).exact = false;
}

// Graphs with several inputs.
void inputs(Table& t) {
  const Shape image = {4, 6, 6};
  Net vector(image);
  const NodeId map = vector.add("map", FullyConnected{.outputs = 6}, {vector.x()});
  const NodeId numbers = vector.add("numbers", Input{}, {});
  const NodeId dense = vector.add("dense", FullyConnected{.outputs = 6}, {numbers});
  t.put("a map and a vector", image, vector.finish(vector.add("plus", Add{}, {map, dense}))).other_inputs = {{5}};

  Net maps(image);
  const NodeId left = maps.add("left", conv1x1(4), {maps.x()});
  const NodeId right = maps.add("right", conv3x3(4, 2), {maps.add("second", Input{}, {})});
  t.put("two maps", image, maps.finish(maps.add("plus", Add{}, {left, right}))).other_inputs = {{3, 12, 12}};
}

}  // namespace

std::vector<Case> operator_cases() {
  Table table;
  convolutions(table);
  inputs(table);
  fully_connected(table);
  batch_norms(table);
  activations(table);
  dilated_convolutions(table);
  poolings_of_real_cells(table);
  sum_poolings(table);
  max_poolings(table);
  average_poolings(table);
  joins(table);
  dropouts(table);
  response_norms(table);
  spatial_transformers(table);
  softmaxes(table);
  chains(table);
  shared_weights(table);
  frozen_layers(table);
  heads(table);
  return table.take();
}

Options case_options(const Case& c) {
  Options options{.batch_size = c.batch, .inputs = {{.shape = c.image}}, .winograd = false, .keep_all = true};
  for (const Shape& shape : c.other_inputs) options.inputs.push_back({.shape = shape});
  return options;
}

void fill_parameters(const ParameterView& view, Values values, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 1);
  for (const std::vector<ParameterSpan>* list : {&view.parameters, &view.statistics}) {
    for (const ParameterSpan& p : *list) {
      if (p.name == "before_weight") {
        fill_identity(p);
      } else if (values == Values::kIntegers) {
        fill_integers(p, random);
      } else {
        fill_floats(p, random);
      }
      if (p.name.ends_with("_moving_var")) {
        for (float& x : p.weight) x = std::abs(x) + 1;
      }
    }
  }
}

std::vector<uint64_t> make_keys(int64_t images, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 4);
  std::vector<uint64_t> keys;
  for (int64_t i = 0; i < images; i++) keys.push_back(random.next());
  return keys;
}

namespace {

// Small whole numbers, or numbers equidistant in (-2, 2), shuffled. The 0.75 keeps even the middle one away from 0.
void add_numbers(int64_t elements, Values values, RandomStream& random, std::vector<float>& to) {
  for (const int64_t k : permutation(elements, random)) {
    const double spread = 4 * (static_cast<double>(k) + 0.75) / static_cast<double>(elements) - 2;
    to.push_back(static_cast<float>(values == Values::kIntegers ? static_cast<double>(random.below(9) - 4) : spread));
  }
}

}  // namespace

HostBatch make_batch(const Case& c, Values values, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 2);
  HostBatch batch;
  batch.keys = make_keys(c.batch, seed);
  batch.others.resize(c.other_inputs.size());
  const graph::Shapes shapes = infer_shapes(c.graph, case_options(c)).value();
  for (int64_t n = 0; n < c.batch; n++) {
    add_numbers(element_count(c.image), values, random, batch.data);
    // With integers class 0 has all the probability, so it would have no gradient as a label.
    const int64_t lowest = values == Values::kIntegers ? 1 : 0;
    for (const graph::LabelInfo& label : shapes.labels) {
      batch.labels.push_back(static_cast<float>(lowest + random.below(label.classes - lowest)));
    }
    for (size_t i = 0; i < batch.others.size(); i++) {
      add_numbers(element_count(c.other_inputs[i]), values, random, batch.others[i]);
    }
  }
  return batch;
}

HostBatch PixelBatch::numbers() const {
  HostBatch batch{std::vector<float>(pixels.size()), labels, keys};
  normalisation->apply(pixels, mirrored, batch.data);
  return batch;
}

PixelBatch make_pixels(const Shape& image, int64_t batch, int64_t classes, bool mean_image, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 3);
  std::vector<float> mean, factor, means;
  for (int64_t k = 0; k < image[0]; k++) {
    mean.push_back(123.68f - 7.1f * static_cast<float>(k));
    factor.push_back(1 / (58.393f + static_cast<float>(k)));
  }
  for (int64_t i = 0; i < element_count(image); i++) means.push_back(100 + static_cast<float>(i % 31) / 3);
  PixelBatch made{std::make_shared<const Normalisation>(
      image, mean, factor, mean_image ? std::make_shared<const std::vector<float>>(means) : nullptr)};
  made.keys = make_keys(batch, seed);
  for (int64_t n = 0; n < batch; n++) {
    for (int64_t i = 0; i < element_count(image); i++) made.pixels.push_back(static_cast<uint8_t>(random.below(256)));
    made.mirrored.push_back(static_cast<uint8_t>(n % 2));
    made.labels.push_back(static_cast<float>(random.below(classes)));
  }
  return made;
}

namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || a.empty()) return a.size() == b.size();  // empty spans have no address to pass to memcmp
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::string first_difference(Executor& a, Executor& b) {
  for (size_t head = 0; head < a.heads(); head++) {
    if (!same_bits(a.result(head), b.result(head))) return "probabilities";
  }
  const ParameterView &left = a.parameters(), &right = b.parameters();
  for (size_t p = 0; p < left.parameters.size(); p++) {
    if (!same_bits(left.parameters[p].gradient, right.parameters[p].gradient)) return left.parameters[p].name;
  }
  for (size_t s = 0; s < left.statistics.size(); s++) {
    if (!same_bits(left.statistics[s].weight, right.statistics[s].weight)) return left.statistics[s].name;
  }
  return "";
}

Result<> step(Executor& executor, const Batch& batch, bool training) {
  DT_TRY_VOID(executor.forward(batch, no_wait));
  return training ? executor.backward(no_wait) : Result<>{};
}

}  // namespace

std::string compare_pixels(Backend& backend, const graph::Graph& graph, const Options& options, bool mean_image) {
  Options of_pixels = options;
  const int64_t classes = graph::infer_shapes(graph, options.inputs[0].shape)->heads[0].outputs;
  const auto draw = [&](uint64_t seed) {
    return make_pixels(options.inputs[0].shape, options.batch_size, classes, mean_image, seed);
  };
  of_pixels.inputs[0].normalisation = draw(0).normalisation;
  const auto a = backend.compile(graph, options).value(), b = backend.compile(graph, of_pixels).value();
  for (Executor* executor : {a.get(), b.get()}) fill_parameters(executor->parameters(), Values::kFloats, 1);
  Options inference = options, inference_of_pixels = of_pixels;
  inference.purpose = inference_of_pixels.purpose = Options::Purpose::kInference;
  const auto c = backend.compile(graph, inference, a.get()).value();
  const auto d = backend.compile(graph, inference_of_pixels, b.get()).value();
  for (const uint64_t seed : {1, 2, 3}) {
    const PixelBatch batch = draw(seed);
    for (const auto& [of_numbers, tested] : {std::pair(a.get(), b.get()), std::pair(c.get(), d.get())}) {
      const bool training = of_numbers == a.get();
      if (!step(*of_numbers, batch.numbers().view(), training) || !step(*tested, batch.view(), training)) {
        return "a step fails";
      }
      const std::string difference = first_difference(*of_numbers, *tested);
      if (!difference.empty()) return fmt::format("batch {}, training {}: {}", seed, training, difference);
    }
  }
  return "";
}

}  // namespace dtrain::exec::test
