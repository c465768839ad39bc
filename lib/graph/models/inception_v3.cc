// Inception v3 for images of 299 pixels, without its auxiliary head, as defined by MXNet 1.x, MXNet-G and MXNet 0.7.
#include <initializer_list>

#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

struct V3Version {
  bool identity;  // whether the network begins with a node `id`
  Pooling::Rounding rounding;
  Pooling::Divisor divisor;
};
constexpr V3Version kV3Of1x{true, Pooling::Rounding::kValid, Pooling::Divisor::kPadded};
constexpr V3Version kV3OfMxnetG{false, Pooling::Rounding::kValid, Pooling::Divisor::kKernel};
constexpr V3Version kV3OfV07{false, Pooling::Rounding::kV07, Pooling::Divisor::kKernel};

Convolution convolution_v3(int64_t filters, int64_t kernel_h, int64_t kernel_w) {
  return {.filters = filters,
          .kernel_h = kernel_h,
          .kernel_w = kernel_w,
          .pad_h = kernel_h / 2,
          .pad_w = kernel_w / 2,
          .bias = false};
}

// A module M has the branches M_conv, M_tower, M_tower_1 and M_tower_2. The units of a tower M_tower are called
// M_tower_conv, M_tower_conv_1, M_tower_conv_2 and so on.
class V3Modules {
 public:
  V3Modules(Builder& b, const ModelOptions& options, const V3Version& version)
      : b_(b), version_(version), batch_norm_{.momentum = options.bn_momentum, .fix_gamma = true} {}

  NodeId unit(const std::string& name, const Convolution& op, NodeId x) {
    x = b_.add(name + "_conv2d", op, {x});
    x = b_.add(name + "_batchnorm", batch_norm_, {x});
    return b_.add(name + "_relu", Activation{}, {x});
  }

  NodeId tower(const std::string& name, NodeId x, std::initializer_list<Convolution> units) {
    int i = 0;
    for (const Convolution& op : units) {
      x = unit(name + (i == 0 ? "_conv" : "_conv_" + std::to_string(i)), op, x);
      i++;
    }
    return x;
  }

  NodeId pool(const std::string& name, Pooling op, NodeId x) {
    op.rounding = version_.rounding;
    op.divisor = version_.divisor;
    return b_.add(name, op, {x});
  }
  NodeId halve(const std::string& name, NodeId x) { return pool(name, pooling(Pooling::Kind::kMax, 3, 2), x); }

  // A module for maps of 35 x 35.
  NodeId five(const std::string& m, NodeId x, int64_t project) {
    const NodeId a = unit(m + "_conv", convolution_v3(64, 1, 1), x);
    const NodeId b = tower(m + "_tower", x, {convolution_v3(48, 1, 1), convolution_v3(64, 5, 5)});
    const NodeId c =
        tower(m + "_tower_1", x, {convolution_v3(64, 1, 1), convolution_v3(96, 3, 3), convolution_v3(96, 3, 3)});
    return concat(m, {a, b, c, projection(m, Pooling::Kind::kAverage, project, x)});
  }
  // Adds a module that reduces maps of 35 x 35 to 17 x 17.
  NodeId halve_35(const std::string& m, NodeId x) {
    const NodeId a = unit(m + "_conv", convolution_no_bias(384, 3, 2), x);
    const NodeId b =
        tower(m + "_tower", x, {convolution_v3(64, 1, 1), convolution_v3(96, 3, 3), convolution_no_bias(96, 3, 2)});
    const NodeId c = halve("max_pool_" + m + "_pool", x);
    b_.state(c, "pad stride");
    return concat(m, {a, b, c});
  }
  // A module for maps of 17 x 17.
  NodeId seven(const std::string& m, NodeId x, int64_t reduced) {
    const NodeId a = unit(m + "_conv", convolution_v3(192, 1, 1), x);
    const NodeId b = tower(m + "_tower", x,
                           {convolution_v3(reduced, 1, 1), convolution_v3(reduced, 1, 7), convolution_v3(192, 7, 1)});
    const NodeId c = tower(m + "_tower_1", x,
                           {convolution_v3(reduced, 1, 1), convolution_v3(reduced, 7, 1), convolution_v3(reduced, 1, 7),
                            convolution_v3(reduced, 7, 1), convolution_v3(192, 1, 7)});
    return concat(m, {a, b, c, projection(m, Pooling::Kind::kAverage, 192, x)});
  }
  // Reduces 17 x 17 to 8 x 8.
  NodeId halve_17(const std::string& m, NodeId x) {
    const NodeId a = tower(m + "_tower", x, {convolution_v3(192, 1, 1), convolution_no_bias(320, 3, 2)});
    const NodeId b = tower(m + "_tower_1", x,
                           {convolution_v3(192, 1, 1), convolution_v3(192, 1, 7), convolution_v3(192, 7, 1),
                            convolution_no_bias(192, 3, 2)});
    return concat(m, {a, b, halve("max_pool_" + m + "_pool", x)});
  }
  // A module for maps of 8 x 8.
  NodeId split(const std::string& m, NodeId x, Pooling::Kind kind) {
    const NodeId a = unit(m + "_conv", convolution_v3(320, 1, 1), x);
    const NodeId b = tower(m + "_tower", x, {convolution_v3(384, 1, 1)});
    const NodeId b_row = unit(m + "_tower_mixed_conv", convolution_v3(384, 1, 3), b);
    const NodeId b_column = unit(m + "_tower_mixed_conv_1", convolution_v3(384, 3, 1), b);
    const NodeId c = tower(m + "_tower_1", x, {convolution_v3(448, 1, 1), convolution_v3(384, 3, 3)});
    const NodeId c_row = unit(m + "_tower_1_mixed_conv", convolution_v3(384, 1, 3), c);
    const NodeId c_column = unit(m + "_tower_1_mixed_conv_1", convolution_v3(384, 3, 1), c);
    return concat(m, {a, b_row, b_column, c_row, c_column, projection(m, kind, 192, x)});
  }

 private:
  NodeId projection(const std::string& m, Pooling::Kind kind, int64_t filters, NodeId x) {
    const std::string name = (kind == Pooling::Kind::kMax ? "max_pool_" : "avg_pool_") + m + "_pool";
    return tower(m + "_tower_2", pool(name, pooling(kind, 3, 1, 1), x), {convolution_v3(filters, 1, 1)});
  }
  NodeId concat(const std::string& m, const std::vector<NodeId>& branches) {
    return b_.add("ch_concat_" + m + "_chconcat", Concat{}, branches);
  }

  Builder& b_;
  V3Version version_;
  BatchNorm batch_norm_;
};

NodeId stem_v3(V3Modules& v3, NodeId x) {
  x = v3.unit("conv", convolution_no_bias(32, 3, 2), x);
  x = v3.unit("conv_1", convolution_no_bias(32, 3), x);
  x = v3.unit("conv_2", convolution_v3(64, 3, 3), x);
  x = v3.halve("pool", x);
  x = v3.unit("conv_3", convolution_v3(80, 1, 1), x);
  x = v3.unit("conv_4", convolution_no_bias(192, 3), x);
  return v3.halve("pool1", x);
}

// Checks the image size. The last pooling has a window of 8 x 8, and the map has that size only if images have at least
// 299 x 299 pixels.
Result<> check_image_v3(const ModelOptions& options) {
  constexpr int64_t kEdgeMin = 299;
  if (options.image[1] >= kEdgeMin && options.image[2] >= kEdgeMin) return {};
  return fail(Code::kUsage, "network '{}' needs images of at least {} x {}, not {} x {}", options.network, kEdgeMin,
              kEdgeMin, options.image[1], options.image[2]);
}

Result<Graph> inception_v3_graph(const ModelOptions& options, const V3Version& version) {
  DT_TRY_VOID(check_image_v3(options));
  Builder b({.convolution = "pad stride", .batch_norm = "fix_gamma", .pooling = "stride"});
  V3Modules v3(b, options, version);
  NodeId x = b.data();
  if (version.identity) x = b.add("id", Identity{}, {x});
  x = stem_v3(v3, x);
  x = v3.five("mixed", x, 32);
  x = v3.five("mixed_1", x, 64);
  x = v3.five("mixed_2", x, 64);
  x = v3.halve_35("mixed_3", x);
  x = v3.seven("mixed_4", x, 128);
  x = v3.seven("mixed_5", x, 160);
  x = v3.seven("mixed_6", x, 160);
  x = v3.seven("mixed_7", x, 192);
  x = v3.halve_17("mixed_8", x);
  x = v3.split("mixed_9", x, Pooling::Kind::kAverage);
  x = v3.split("mixed_10", x, Pooling::Kind::kMax);
  x = v3.pool("global_pool", pooling(Pooling::Kind::kAverage, 8), x);
  x = b.add("flatten", Flatten{}, {x});
  x = b.add("fc1", FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace

Result<Graph> inception_v3(const ModelOptions& options, int64_t) {
  return inception_v3_graph(options, kV3Of1x);
}

Result<Graph> inception_v3_of_mxnet_g(const ModelOptions& options, int64_t) {
  return inception_v3_graph(options, kV3OfMxnetG);
}

Result<Graph> inception_v3_of_v07(const ModelOptions& options, int64_t) {
  return inception_v3_graph(options, kV3OfV07);
}

}  // namespace dtrain::graph
