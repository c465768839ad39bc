// Small networks for small images: mlp, lenet (also with a spatial transformer), 3conv.
#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

constexpr Activation kRelu{Activation::Kind::kRelu};
constexpr Activation kTanh{Activation::Kind::kTanh};

}  // namespace

Result<Graph> mlp(const ModelOptions& options, int64_t) {
  Builder b;
  NodeId x = b.add(Flatten{}, {b.data()});
  x = b.add("fc1", FullyConnected{128}, {x});
  x = b.add("relu1", kRelu, {x});
  x = b.add("fc2", FullyConnected{64}, {x});
  x = b.add("relu2", kRelu, {x});
  x = b.add("fc3", FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

namespace {

// The localization network. Its output is the transformation, which is the identity at first and learns slowly.
NodeId localization(Builder& b, NodeId data) {
  NodeId x = b.add(kRelu, {b.add(convolution(30, 5, 2), {data})});
  x = b.add(pooling(Pooling::Kind::kMax, 2, 2), {x});
  const NodeId second = b.add(convolution(60, 3, 1, 1), {x});
  b.state(second, "stride");
  Pooling all = pooling(Pooling::Kind::kAverage, 2);
  all.global = true;
  x = b.add(Flatten{}, {b.add(all, {b.add(kRelu, {second})})});
  const NodeId numbers = b.add("stn_loc", FullyConnected{6}, {x});
  b.state(numbers, "__lr_mult__=0.01");
  const InitializerSpec identity{.kind = InitializerSpec::Kind::kIdentityTransformation};
  for (const size_t argument : {FullyConnected::kWeight, FullyConnected::kBias}) {
    b.set_rule(numbers, argument, {.learning_rate = 0.01, .weight_decay = {}, .initial = identity});
  }
  return numbers;
}

Graph lenet_of(Builder& b, const ModelOptions& options, NodeId x) {
  for (const int64_t filters : {20, 50}) {
    x = b.add(convolution(filters, 5), {x});
    x = b.add(kTanh, {x});
    x = b.add(pooling(Pooling::Kind::kMax, 2, 2), {x});
  }
  x = b.add(Flatten{}, {x});
  x = b.add(FullyConnected{500}, {x});
  x = b.add(kTanh, {x});
  x = b.add(FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace

Result<Graph> lenet_stn(const ModelOptions& options, int64_t) {
  constexpr int64_t kEdge = 28;
  Builder b;
  const NodeId data = b.data();
  const NodeId numbers = localization(b, data);
  return lenet_of(b, options, b.add(SpatialTransformer{kEdge, kEdge}, {data, numbers}));
}

Result<Graph> lenet(const ModelOptions& options, int64_t depth) {
  if (options.add_stn) return lenet_stn(options, depth);
  Builder b;
  return lenet_of(b, options, b.data());
}

Result<Graph> three_convolutions(const ModelOptions& options, int64_t) {
  Builder b({.convolution = "pad stride"});
  const auto unit = [&](int64_t filters, NodeId x) {
    x = b.add(convolution(filters, 5, 1, 2), {x});
    x = b.add(BatchNorm{.momentum = options.bn_momentum}, {x});
    return b.add(kRelu, {x});
  };
  NodeId x = b.add(pooling(Pooling::Kind::kMax, 3, 2), {unit(32, b.data())});
  x = b.add(pooling(Pooling::Kind::kAverage, 3, 2), {unit(32, x)});
  x = b.add("final_pool", pooling(Pooling::Kind::kAverage, 3, 2), {unit(64, x)});
  x = b.add(Flatten{}, {x});
  x = b.add(FullyConnected{64}, {x});
  x = b.add(kRelu, {x});
  x = b.add(FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace dtrain::graph
