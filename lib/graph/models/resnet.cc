// Residual networks: v2 (activation before the convolutions) and v1 (after them) of MXNet 1.x.
#include <array>
#include <optional>

#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

// What the depth and the image decide.
struct Plan {
  std::vector<int64_t> units{};    // of each stage
  std::vector<int64_t> filters{};  // of the stem, then of each stage
  bool bottleneck = false;
  bool small_stem = false;  // one 3x3 convolution in place of 7x7 and pooling
};

struct Depth {
  int64_t layers;
  std::array<int64_t, 4> units;
};
constexpr Depth kDepths[] = {{18, {2, 2, 2, 2}},   {34, {3, 4, 6, 3}},    {50, {3, 4, 6, 3}},   {101, {3, 4, 23, 3}},
                             {152, {3, 8, 36, 3}}, {200, {3, 24, 36, 3}}, {269, {3, 30, 48, 8}}};

// Three stages, for CIFAR: chosen by height <= 28, so that 3,32,32 makes a network of four stages with a small stem.
std::optional<Plan> plan_of_3_stages(int64_t depth) {
  const bool bottleneck = depth >= 164;
  const int64_t layers_a_unit = bottleneck ? 9 : 6;
  if (depth < 8 || (depth - 2) % layers_a_unit != 0) return std::nullopt;
  Plan plan{
      .units = std::vector<int64_t>(3, (depth - 2) / layers_a_unit), .bottleneck = bottleneck, .small_stem = true};
  plan.filters = bottleneck ? std::vector<int64_t>{16, 64, 128, 256} : std::vector<int64_t>{16, 16, 32, 64};
  return plan;
}

std::optional<Plan> plan_of_4_stages(int64_t depth, int64_t height) {
  for (const Depth& known : kDepths) {
    if (known.layers != depth) continue;
    Plan plan{.units = {known.units.begin(), known.units.end()}, .bottleneck = depth >= 50, .small_stem = height <= 32};
    plan.filters =
        plan.bottleneck ? std::vector<int64_t>{64, 256, 512, 1024, 2048} : std::vector<int64_t>{64, 64, 128, 256, 512};
    return plan;
  }
  return std::nullopt;
}

Result<Plan> plan_of(const ModelOptions& options, int64_t depth) {
  const int64_t height = options.image[1];
  const bool three_stages = height <= 28;
  if (depth == 0) depth = three_stages ? 110 : 50;
  std::optional<Plan> plan = three_stages ? plan_of_3_stages(depth) : plan_of_4_stages(depth, height);
  if (plan) return *plan;
  if (three_stages) {
    return fail(
        Code::kUsage,
        "network '{}' has no form with {} layers for images of up to 28 pixels: the depth is 6n+2 below 164 (20, "
        "56, 110) and 9n+2 from there on (164, 1001)",
        options.network, depth);
  }
  return fail(
      Code::kUsage,
      "network '{}' has no form with {} layers for images of more than 28 pixels: 18, 34, 50, 101, 152, 200, 269",
      options.network, depth);
}

// What both versions share. `s` in names is stage<i>_unit<j>.
class Residual {
 public:
  Residual(Builder& b, const ModelOptions& options, const Plan& plan) : b_(b), options_(options), plan_(plan) {}

  NodeId convolve(const std::string& name, const Convolution& op, NodeId x) { return b_.add(name, op, {x}); }
  NodeId norm(const std::string& name, NodeId x, bool fix_gamma = false) {
    return b_.add(name, BatchNorm{.epsilon = 2e-5, .momentum = options_.bn_momentum, .fix_gamma = fix_gamma}, {x});
  }
  NodeId relu(const std::string& name, NodeId x) { return b_.add(name, Activation{}, {x}); }
  NodeId plus(NodeId a, NodeId b) { return b_.add(Add{}, {a, b}); }

  // conv0, bn0, relu0 and the pooling of large images.
  NodeId large_stem(NodeId x) {
    x = convolve("conv0", convolution_no_bias(plan_.filters[0], 7, 2, 3), x);
    x = relu("relu0", norm("bn0", x));
    return b_.add(pooling(Pooling::Kind::kMax, 3, 2, 1), {x});
  }
  NodeId small_stem(NodeId x) { return convolve("conv0", convolution_no_bias(plan_.filters[0], 3, 1, 1), x); }

  // All units; unit(s, x, filters, stride, first) builds one. The first of every stage has a projection.
  template <class Unit>
  NodeId stages(NodeId x, Unit&& unit) {
    for (size_t i = 0; i < plan_.units.size(); i++) {
      for (int64_t j = 0; j < plan_.units[i]; j++) {
        const std::string s = fmt::format("stage{}_unit{}", i + 1, j + 1);
        x = unit(s, x, plan_.filters[i + 1], i > 0 && j == 0 ? 2 : 1, j == 0);
      }
    }
    return x;
  }

  Graph head(NodeId x) {
    // Pooling is global; MXNet's scripts write a kernel of 7 beside it, which symbol files repeat.
    Pooling global = pooling(Pooling::Kind::kAverage, 7);
    global.global = true;
    x = b_.add("pool1", global, {x});
    x = b_.add(Flatten{}, {x});
    x = b_.add("fc1", FullyConnected{options_.num_classes}, {x});
    b_.add("softmax", SoftmaxOutput{options_.smooth_alpha}, {x});
    return b_.take();
  }

 private:
  Builder& b_;
  const ModelOptions& options_;
  const Plan& plan_;
};

}  // namespace

Result<Graph> resnet_v2(const ModelOptions& options, int64_t depth) {
  DT_TRY(const Plan plan, plan_of(options, depth));
  Builder b;
  Residual r(b, options, plan);
  NodeId x = b.add("id", Identity{}, {b.data()});
  x = r.norm("bn_data", x, true);
  x = plan.small_stem ? r.small_stem(x) : r.large_stem(x);
  x = r.stages(x, [&](const std::string& s, NodeId in, int64_t filters, int64_t stride, bool first) {
    const NodeId act = r.relu(s + "_relu1", r.norm(s + "_bn1", in));
    NodeId y = 0;
    if (plan.bottleneck) {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters / 4, 1), act);
      y = r.relu(s + "_relu2", r.norm(s + "_bn2", y));
      y = r.convolve(s + "_conv2", convolution_no_bias(filters / 4, 3, stride, 1), y);
      y = r.relu(s + "_relu3", r.norm(s + "_bn3", y));
      y = r.convolve(s + "_conv3", convolution_no_bias(filters, 1), y);
    } else {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters, 3, stride, 1), act);
      y = r.relu(s + "_relu2", r.norm(s + "_bn2", y));
      y = r.convolve(s + "_conv2", convolution_no_bias(filters, 3, 1, 1), y);
    }
    return r.plus(y, first ? r.convolve(s + "_sc", convolution_no_bias(filters, 1, stride), act) : in);
  });
  x = r.relu("relu1", r.norm("bn1", x));
  return r.head(x);
}

Result<Graph> resnet_v1(const ModelOptions& options, int64_t depth) {
  DT_TRY(const Plan plan, plan_of(options, depth));
  Builder b;
  Residual r(b, options, plan);
  NodeId x = b.add("id", Identity{}, {b.data()});
  x = plan.small_stem ? r.norm("bn0", r.small_stem(x)) : r.large_stem(x);
  x = r.stages(x, [&](const std::string& s, NodeId in, int64_t filters, int64_t stride, bool first) {
    NodeId y = 0;
    if (plan.bottleneck) {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters / 4, 1, stride), in);
      y = r.relu(s + "_relu1", r.norm(s + "_bn1", y));
      y = r.convolve(s + "_conv2", convolution_no_bias(filters / 4, 3, 1, 1), y);
      y = r.relu(s + "_relu2", r.norm(s + "_bn2", y));
      y = r.norm(s + "_bn3", r.convolve(s + "_conv3", convolution_no_bias(filters, 1), y));
    } else {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters, 3, stride, 1), in);
      y = r.relu(s + "_relu1", r.norm(s + "_bn1", y));
      y = r.norm(s + "_bn2", r.convolve(s + "_conv2", convolution_no_bias(filters, 3, 1, 1), y));
    }
    if (!first) return r.relu(s + "_relu3", r.plus(y, in));
    const NodeId projected = r.convolve(s + "_conv1sc", convolution_no_bias(filters, 1, stride), in);
    return r.relu(s + "_relu3", r.plus(y, r.norm(s + "_sc", projected)));
  });
  return r.head(x);
}

}  // namespace dtrain::graph
