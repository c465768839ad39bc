// GoogLeNet without its auxiliary heads, as defined by MXNet 1.x and MXNet 0.7.
#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

struct GoogleModule {
  const char* name;
  int64_t filters_1x1, reduce_3x3, filters_3x3, reduce_5x5, filters_5x5, project;
};
constexpr GoogleModule kGoogleModules[] = {{"in3a", 64, 96, 128, 16, 32, 32},     {"in3b", 128, 128, 192, 32, 96, 64},
                                           {"in4a", 192, 96, 208, 16, 48, 64},    {"in4b", 160, 112, 224, 24, 64, 64},
                                           {"in4c", 128, 128, 256, 24, 64, 64},   {"in4d", 112, 144, 288, 32, 64, 64},
                                           {"in4e", 256, 160, 320, 32, 128, 128}, {"in5a", 256, 160, 320, 32, 128, 128},
                                           {"in5b", 384, 192, 384, 48, 128, 128}};

class GoogleUnits {
 public:
  GoogleUnits(Builder& b, bool v07) : b_(b), v07_(v07) {}

  NodeId unit(const std::string& name, const Convolution& op, NodeId x) {
    return b_.add("relu_" + name, Activation{}, {b_.add("conv_" + name, op, {x})});
  }
  Pooling pool(Pooling::Kind kind, int64_t kernel, int64_t stride, int64_t pad = 0) const {
    Pooling op = pooling(kind, kernel, stride, pad);
    if (v07_) op.rounding = Pooling::Rounding::kV07;
    if (v07_) op.divisor = Pooling::Divisor::kKernel;
    return op;
  }
  NodeId halve(NodeId x) { return b_.add(pool(Pooling::Kind::kMax, 3, 2), {x}); }

  NodeId module(const GoogleModule& m, NodeId x) {
    const std::string s = m.name;
    const NodeId a = unit(s + "_1x1", convolution(m.filters_1x1, 1), x);
    NodeId b = unit(s + "_3x3_reduce", convolution(m.reduce_3x3, 1), x);
    b = unit(s + "_3x3", convolution(m.filters_3x3, 3, 1, 1), b);
    NodeId c = unit(s + "_5x5_reduce", convolution(m.reduce_5x5, 1), x);
    c = unit(s + "_5x5", convolution(m.filters_5x5, 5, 1, 2), c);
    NodeId d = b_.add("max_pool_" + s + "_pool", pool(Pooling::Kind::kMax, 3, 1, 1), {x});
    d = unit(s + "_proj", convolution(m.project, 1), d);
    return b_.add("ch_concat_" + s + "_chconcat", Concat{}, {a, b, c, d});
  }

 private:
  Builder& b_;
  bool v07_;
};

Graph googlenet_graph(const ModelOptions& options, bool v07) {
  Builder b({.convolution = "pad stride", .pooling = "stride"});
  GoogleUnits u(b, v07);
  NodeId x = u.halve(u.unit("conv1", convolution(64, 7, 2, 3), b.data()));
  x = u.unit("conv2", convolution(64, 1), x);
  x = u.halve(u.unit("conv3", convolution(192, 3, 1, 1), x));
  for (const GoogleModule& m : kGoogleModules) {
    const std::string_view name = m.name;
    if (name == "in4a" || name == "in5a") x = u.halve(x);
    x = u.module(m, x);
  }
  Pooling last = u.pool(Pooling::Kind::kAverage, 7, 1);
  last.global = !v07;
  x = b.add(Flatten{}, {b.add(last, {x})});
  x = b.add(FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace

Result<Graph> googlenet(const ModelOptions& options, int64_t) {
  return googlenet_graph(options, false);
}

Result<Graph> googlenet_of_v07(const ModelOptions& options, int64_t) {
  return googlenet_graph(options, true);
}

}  // namespace dtrain::graph
