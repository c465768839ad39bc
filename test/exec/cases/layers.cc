#include "cases/net.h"

namespace dtrain::exec::test {

namespace {

using namespace dtrain::graph;

// Layers of Inception and ResNet with fewer channels and smaller maps, odd sizes, and edge cases of the rules.
void convolutions(Table& t) {
  Convolution biased = conv3x3(24);
  biased.bias = true;
  t.first("first convolution 3x3, inception-28 conv1", {3, 12, 12}, biased);
  t.first("first convolution 7x7 stride 2, resnet conv0", {3, 23, 21}, convolution_no_bias(16, 7, 2, 3));
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
  t.one("max pooling 2x2 stride 2, lenet", {20, 12, 12}, pooling(kMax, 2, 2, 0));
  t.one("max pooling 2x2 stride 2 of odd size", {20, 7, 7}, pooling(kMax, 2, 2, 0));
  t.one("max pooling 3x3 stride 2, 3conv", {16, 14, 14}, pooling(kMax, 3, 2, 0));
  t.one("max pooling 3x3 stride 2 pad 1, even size", {16, 8, 8}, pooling(kMax, 3, 2, 1));
  t.one("max pooling 3x3 stride 2 pad 1, odd size", {16, 7, 7}, pooling(kMax, 3, 2, 1));
  t.one("max pooling 3x3 stride 1 pad 1", {16, 7, 7}, pooling(kMax, 3, 1, 1));
  t.one("max pooling full", {16, 8, 8}, pooling(kMax, 3, 2, 0, kFull));
  t.one("max pooling full pad 1", {5, 8, 8}, pooling(kMax, 3, 2, 1, kFull));
  t.one("max pooling of v0.7, even size", {16, 8, 8}, pooling(kMax, 3, 2, 0, kV07));
  t.one("max pooling of v0.7, odd size", {16, 7, 7}, pooling(kMax, 3, 2, 0, kV07));
  t.one("max pooling of v0.7 pad 1", {5, 6, 6}, pooling(kMax, 3, 2, 1, kV07));
  t.one("max pooling with sides that differ", {5, 9, 11},
        Pooling{.kind = kMax, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 3, .pad_h = 1, .pad_w = 0});
  t.one("max pooling of everything", {16, 5, 5}, Pooling{.kind = kMax, .global = true});
}

void average_poolings(Table& t) {
  const auto inexact = [&](std::string name, const Shape& image, Pooling op) {
    t.one(std::move(name), image, op).exact = false;
  };
  t.one("average pooling 2x2 stride 2", {16, 8, 8}, pooling(kAverage, 2, 2, 0));
  t.one("average pooling 2x2 full, clipped", {16, 7, 7}, pooling(kAverage, 2, 2, 0, kFull));
  t.one("average pooling 2x2 of v0.7, always by 4", {16, 7, 7}, pooling(kAverage, 2, 2, 0, kV07, kKernel));
  inexact("average pooling 3x3 stride 1 pad 1, inception", {16, 7, 7}, pooling(kAverage, 3, 1, 1));
  inexact("average pooling 3x3 stride 2, 3conv", {16, 13, 13}, pooling(kAverage, 3, 2, 0));
  inexact("average pooling 3x3 stride 2 pad 1", {5, 8, 8}, pooling(kAverage, 3, 2, 1));
  inexact("average pooling full, clipped", {16, 8, 8}, pooling(kAverage, 3, 2, 0, kFull));
  inexact("average pooling full pad 1", {16, 8, 8}, pooling(kAverage, 3, 2, 1, kFull));
  inexact("average pooling full pad 1, always by 9", {16, 8, 8}, pooling(kAverage, 3, 2, 1, kFull, kKernel));
  inexact("average pooling of v0.7, always by 9", {16, 8, 8}, pooling(kAverage, 3, 2, 0, kV07, kKernel));
  inexact("average pooling 7x7 of the whole map", {24, 7, 7}, pooling(kAverage, 7, 1, 0));
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
  inexact("average of real cells, 3x3 stride 1 pad 1", {16, 7, 7}, pooling(kAverage, 3, 1, 1, kValid, kReal));
  inexact("average of real cells, full, pad 1", {5, 8, 8}, pooling(kAverage, 3, 2, 1, kFull, kReal));
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
  t.one("sum pooling 2x2 stride 2", {16, 8, 8}, pooling(kSum, 2, 2, 0));
  t.one("sum pooling 3x3 stride 1 pad 1", {16, 7, 7}, pooling(kSum, 3, 1, 1));
  t.one("sum pooling full, clipped", {5, 8, 8}, pooling(kSum, 3, 2, 0, kFull));
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
  const NodeId pool = pooled.add("b", pooling(kMax, 3, 2, 1), {pooled.x()});
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

}  // namespace

void add_layer_cases(Table& table) {
  convolutions(table);
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
}

}  // namespace dtrain::exec::test
