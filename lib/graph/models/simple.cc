// Small networks for small images: mlp, lenet, 3conv.
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

Result<Graph> lenet(const ModelOptions& options, int64_t) {
  Builder b;
  NodeId x = b.data();
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
