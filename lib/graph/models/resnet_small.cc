// MXNet-G's residual network for images of 28 pixels, with generated names, convolutions with bias and MXNet's default
// BatchNorm.
#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

class BasicBlocks {
 public:
  BasicBlocks(Builder& b, const ModelOptions& options) : b_(b), batch_norm_{.momentum = options.bn_momentum} {}

  NodeId unit(const Convolution& op, NodeId x) {
    const NodeId y = b_.add(op, {x});
    return b_.add(batch_norm_, {y});
  }
  NodeId relu(NodeId x) { return b_.add(Activation{}, {x}); }

  NodeId block(NodeId x, int64_t filters, bool halve) {
    NodeId y = relu(unit(convolution(filters, 3, halve ? 2 : 1, 1), x));
    y = unit(convolution(filters, 3, 1, 1), y);
    // This node is built last, but it is the first term of the addition: in canonical order, its parameters precede
    // those of the block's other nodes, although its generated names have higher numbers.
    const NodeId shortcut = halve ? unit(convolution(filters, 1, 2), x) : x;
    return relu(b_.add(Add{}, {shortcut, y}));
  }

 private:
  Builder& b_;
  BatchNorm batch_norm_;
};

}  // namespace

Result<Graph> resnet_28_small(const ModelOptions& options, int64_t depth) {
  if (depth == 0) depth = 56;
  if (depth < 8 || (depth - 2) % 6 != 0) {
    return fail(Code::kUsage, "network '{}' cannot have {} layers: the depth must be 6n+2, such as 20 or 56",
                options.network, depth);
  }
  Builder b({.convolution = "pad stride"});
  BasicBlocks units(b, options);
  NodeId x = units.relu(units.unit(convolution(16, 3, 1, 1), b.data()));
  for (const int64_t filters : {16, 32, 64}) {
    for (int64_t i = 0; i < (depth - 2) / 6; i++) x = units.block(x, filters, filters > 16 && i == 0);
  }
  x = b.add(pooling(Pooling::Kind::kAverage, 7), {x});
  x = b.add("flatten", Flatten{}, {x});
  x = b.add("fc1", FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace dtrain::graph
