// MXNet-G's "cross" (also called dfnmr): two streams of residual blocks, each of which adds to the mean of both.
#include <fmt/core.h>

#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

struct Streams {
  NodeId first, second;
};

class Blocks {
 public:
  Blocks(Builder& b, const ModelOptions& options)
      : b_(b), batch_norm_{.epsilon = 2e-5, .momentum = options.bn_momentum, .fix_gamma = false} {}

  NodeId unit(const std::string& name, const Convolution& op, NodeId x, bool relu) {
    x = b_.add(name + "_conv", op, {x});
    x = b_.add(name + "_bn", batch_norm_, {x});
    return relu ? b_.add(name + "_relu", Activation{}, {x}) : x;
  }

  // The last block adds both branches to the mean and returns a single stream.
  Streams block(const std::string& name, const Streams& x, int64_t filters, bool halve, bool last) {
    const NodeId line1 = line(name + "_l1", x.first, filters, halve);
    const NodeId line2 = line(name + "_l2", x.second, filters, halve);
    const NodeId deep1 = deep(name + "_d1", x.first, filters, halve);
    const NodeId deep2 = deep(name + "_d2", x.second, filters, halve);
    const NodeId fuse = b_.add(Scale{0.5}, {plus(line1, line2)});
    if (last) {
      b_.skip_names(Add{}, 2);  // MXNet-G's script also computes sums for two streams here, and discards them
      const NodeId y = b_.add(name + "_relu1", Activation{}, {plus(plus(fuse, deep1), deep2)});
      return {y, y};
    }
    const NodeId y1 = plus(fuse, deep1), y2 = plus(fuse, deep2);
    return {b_.add(name + "_relu1", Activation{}, {y1}), b_.add(name + "_relu2", Activation{}, {y2})};
  }

 private:
  NodeId plus(NodeId a, NodeId b) { return b_.add(Add{}, {a, b}); }

  NodeId line(const std::string& name, NodeId x, int64_t filters, bool halve) {
    return halve ? unit(name + "_line", convolution_no_bias(filters, 1, 2), x, false) : x;
  }

  NodeId deep(const std::string& name, NodeId x, int64_t filters, bool halve) {
    x = unit(name + "_two1", convolution_no_bias(filters, 3, halve ? 2 : 1, 1), x, true);
    return unit(name + "_two2", convolution_no_bias(filters, 3, 1, 1), x, false);
  }

  Builder& b_;
  BatchNorm batch_norm_;
};

}  // namespace

Result<Graph> cross(const ModelOptions& options, int64_t depth) {
  constexpr int64_t kGroups = 3, kBlockLayers = 4, kOuterLayers = 2;
  if (depth == 0) depth = 56;
  if (depth < kOuterLayers + kGroups * kBlockLayers) {
    return fail(
        Code::kUsage,
        "network '{}' cannot have {} layers: the depth must be at least {}; usual depths are 20, 32, 56 and 110",
        options.network, depth, kOuterLayers + kGroups * kBlockLayers);
  }
  Builder b({.convolution = "pad stride", .batch_norm = "eps fix_gamma momentum", .pooling = "stride"});
  Blocks blocks(b, options);
  int64_t filters = 16 * options.widen_factor;
  const NodeId start = blocks.unit("g0", convolution_no_bias(filters, 3, 1, 1), b.data(), true);
  Streams x{start, start};
  int64_t layers = depth - kOuterLayers;
  for (int64_t group = 1; group <= kGroups; group++) {
    // The group gets an equal share of the remaining layers, rounded down, so the last group gets the remainder.
    const int64_t count = layers / (kBlockLayers * (kGroups - group + 1));
    if (group > 1) filters *= 2;
    for (int64_t j = 1; j <= count; j++) {
      const bool halve = group > 1 && j == 1;
      x = blocks.block(fmt::format("g{}_b{}", group, j), x, filters, halve, group == kGroups && j == count);
    }
    layers -= kBlockLayers * count;
  }
  Pooling global = pooling(Pooling::Kind::kAverage, 8);
  global.global = true;
  NodeId y = b.add("cls_pool", global, {x.first});
  y = b.add("cls_flatten", Flatten{}, {y});
  y = b.add("cls_fc", FullyConnected{options.num_classes}, {y});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {y});
  return b.take();
}

}  // namespace dtrain::graph
