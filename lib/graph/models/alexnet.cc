// AlexNet (Krizhevsky et al. 2012) without its groups: five convolutions, two of them with local response norms.
#include <fmt/core.h>

#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

// The differences between the versions of MXNet.
struct AlexVersion {
  bool named = false;  // convolutions and fully connected layers have explicit names
  bool response_after_pooling = false;
  double k = 2;
  const char* response_stated = "alpha beta knorm=2";
  Pooling::Rounding rounding = Pooling::Rounding::kValid;
};

class AlexUnits {
 public:
  AlexUnits(Builder& b, const AlexVersion& version) : b_(b), version_(version) {}

  NodeId convolve(const Convolution& op, NodeId x) {
    convolutions_++;
    return activated(version_.named ? b_.add(fmt::format("conv{}", convolutions_), op, {x}) : b_.add(op, {x}));
  }
  NodeId halve(NodeId x) { return b_.add(pooling(Pooling::Kind::kMax, 3, 2, 0, version_.rounding), {x}); }
  NodeId halve_and_normalize(NodeId x) {
    return version_.response_after_pooling ? respond(halve(x)) : halve(respond(x));
  }
  NodeId connect(int64_t outputs, NodeId x) {
    const FullyConnected op{outputs};
    layers_++;
    return version_.named ? b_.add(fmt::format("fc{}", layers_), op, {x}) : b_.add(op, {x});
  }
  NodeId hide(NodeId x) {
    constexpr int64_t kHidden = 4096;
    const NodeId dropped = b_.add(Dropout{0.5}, {activated(connect(kHidden, x))});
    b_.state(dropped, "p");
    return dropped;
  }

 private:
  NodeId activated(NodeId x) { return b_.add(Activation{}, {x}); }
  NodeId respond(NodeId x) {
    const NodeId id = b_.add(LocalResponseNorm{.size = 5, .alpha = 1e-4, .beta = 0.75, .k = version_.k}, {x});
    b_.state(id, version_.response_stated);
    return id;
  }

  Builder& b_;
  const AlexVersion& version_;
  int convolutions_ = 0, layers_ = 0;
};

Graph alexnet_graph(const ModelOptions& options, const AlexVersion& version) {
  Builder b;
  AlexUnits u(b, version);
  NodeId x = u.halve_and_normalize(u.convolve(convolution(96, 11, 4), b.data()));
  x = u.halve_and_normalize(u.convolve(convolution(256, 5, 1, 2), x));
  for (const int64_t filters : {384, 384, 256}) x = u.convolve(convolution(filters, 3, 1, 1), x);
  x = b.add(Flatten{}, {u.halve(x)});
  x = u.connect(options.num_classes, u.hide(u.hide(x)));
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

constexpr AlexVersion kAlexFirst{.response_after_pooling = true, .k = 1, .response_stated = "alpha beta knorm=1"};

}  // namespace

Result<Graph> alexnet(const ModelOptions& options, int64_t) {
  return alexnet_graph(options, {.named = true});
}

Result<Graph> alexnet_of_mxnet_g(const ModelOptions& options, int64_t) {
  return alexnet_graph(options, kAlexFirst);
}

Result<Graph> alexnet_of_v07(const ModelOptions& options, int64_t) {
  AlexVersion version = kAlexFirst;
  version.rounding = Pooling::Rounding::kV07;
  return alexnet_graph(options, version);
}

}  // namespace dtrain::graph
