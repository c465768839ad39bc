// MXNet 0.7's residual network for CIFAR-10 at 32 pixels. Its shortcuts average 2x2 pixels and pad the channels with
// zeros, by a convolution with fixed weights. Initial values and rates follow its training script.
#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

using Kind = InitializerSpec::Kind;

constexpr ParameterRule kFixed{.learning_rate = 0, .weight_decay = 0, .initial = {}};
// The rule for betas and biases that have the same weight decay as weights. By default, betas and biases have none.
constexpr ParameterRule kDecays{.learning_rate = {}, .weight_decay = 1, .initial = {}};

ParameterRule initially(const InitializerSpec& spec) {
  return {.learning_rate = {}, .weight_decay = {}, .initial = spec};
}

class ZscoreUnits {
 public:
  ZscoreUnits(Builder& b, const ModelOptions& options) : b_(b), momentum_(options.bn_momentum) {}

  NodeId norm(const std::string& name, double epsilon, bool fix_gamma, NodeId x) {
    x = b_.add(name, BatchNorm{.epsilon = epsilon, .momentum = momentum_, .fix_gamma = fix_gamma}, {x});
    b_.set_rule(x, BatchNorm::kVariance, initially({.kind = Kind::kConstant, .magnitude = 0}));
    return x;
  }

  NodeId unit(const std::string& name, const Convolution& op, NodeId x) {
    x = norm(name + "_bn", 1e-5, false, b_.add(name, op, {x}));
    b_.set_rule(x, BatchNorm::kBeta, kDecays);
    return x;
  }
  NodeId relu(const std::string& name, NodeId x) { return b_.add(name + "_relu", Activation{}, {x}); }

  NodeId block(const std::string& name, NodeId x, int64_t filters, bool halve) {
    const std::string conv1 = name + "_conv1";
    NodeId y = relu(conv1, unit(conv1, convolution_no_bias(filters, 3, halve ? 2 : 1, 1), x));
    y = unit(name + "_conv2", convolution_no_bias(filters, 3, 1, 1), y);
    return relu(name, b_.add(Add{}, {halve ? shortcut(name + "_proj", x, filters) : x, y}));
  }

 private:
  NodeId shortcut(const std::string& name, NodeId x, int64_t filters) {
    x = b_.add(name, convolution_no_bias(filters, 2, 2), {x});
    ParameterRule rule = kFixed;
    rule.initial = InitializerSpec{.kind = Kind::kDiagonal, .magnitude = 0.25};
    b_.set_rule(x, Convolution::kWeight, rule);
    return x;
  }

  Builder& b_;
  double momentum_;
};

}  // namespace

Result<Graph> resnet_zscore(const ModelOptions& options, int64_t) {
  constexpr int64_t kSize = 32, kBlocks = 9;
  if (options.image[1] < kSize || options.image[2] < kSize) {
    return fail(Code::kUsage, "network '{}' needs images of 32 x 32 pixels, not {}: use --image-shape 3,32,32",
                options.network, to_string(options.image));
  }
  Builder b({.convolution = "pad stride", .batch_norm = "eps fix_gamma momentum"});
  ZscoreUnits u(b, options);
  NodeId x = u.norm("zscore", 1e-3, true, b.data());
  b.state(x, "fix_gamma momentum");
  b.set_rule(x, BatchNorm::kGamma, kFixed);
  b.set_rule(x, BatchNorm::kBeta, kFixed);
  x = u.relu("conv0", u.unit("conv0", convolution_no_bias(16, 3, 1, 1), x));
  for (int64_t level = 1; level <= 3; level++) {
    for (int64_t block = 1; block <= kBlocks; block++) {
      x = u.block(fmt::format("level{}_block{}", level, block), x, int64_t{8} << level, level > 1 && block == 1);
    }
  }
  x = b.add(pooling(Pooling::Kind::kAverage, 8), {x});
  x = b.add(Flatten{}, {x});
  x = b.add("fc", FullyConnected{options.num_classes}, {x});
  b.set_rule(x, FullyConnected::kWeight,
             initially({.kind = Kind::kXavier, .factor = InitializerSpec::Factor::kIn, .magnitude = 1}));
  b.set_rule(x, FullyConnected::kBias, kDecays);
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace dtrain::graph
