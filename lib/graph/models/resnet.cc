// Residual networks: v2 (activation before the convolutions) from MXNet 1.x and MXNet-G, and v1 and v1.5 (activation
// after them) from MXNet 1.x.
#include <array>
#include <optional>

#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

// The structure of a network, which follows from the depth and the image.
struct Plan {
  std::vector<int64_t> units{};    // number of units in each stage
  std::vector<int64_t> filters{};  // number of filters of the stem, then of each stage
  bool bottleneck = false;
  // Whether the network begins with one 3x3 convolution instead of a 7x7 convolution and pooling.
  bool small_stem = false;
};

struct Depth {
  int64_t layers;
  std::array<int64_t, 4> units;
};
constexpr Depth kDepths[] = {{18, {2, 2, 2, 2}},   {34, {3, 4, 6, 3}},    {50, {3, 4, 6, 3}},   {101, {3, 4, 23, 3}},
                             {152, {3, 8, 36, 3}}, {200, {3, 24, 36, 3}}, {269, {3, 30, 48, 8}}};

// The plan with three stages, as for CIFAR.
std::optional<Plan> plan_of_3_stages(int64_t depth) {
  const bool bottleneck = depth >= 164;
  const int64_t layers_a_unit = bottleneck ? 9 : 6;
  if (depth < 8 || (depth - 2) % layers_a_unit != 0) return std::nullopt;
  Plan plan{
      .units = std::vector<int64_t>(3, (depth - 2) / layers_a_unit), .bottleneck = bottleneck, .small_stem = true};
  plan.filters = bottleneck ? std::vector<int64_t>{16, 64, 128, 256} : std::vector<int64_t>{16, 16, 32, 64};
  return plan;
}

std::optional<Plan> plan_of_4_stages(int64_t depth, bool small_stem) {
  for (const Depth& known : kDepths) {
    if (known.layers != depth) continue;
    Plan plan{.units = {known.units.begin(), known.units.end()}, .bottleneck = depth >= 50, .small_stem = small_stem};
    plan.filters =
        plan.bottleneck ? std::vector<int64_t>{64, 256, 512, 1024, 2048} : std::vector<int64_t>{64, 64, 128, 256, 512};
    return plan;
  }
  return std::nullopt;
}

// `what` describes the images or the data set in the message.
tl::unexpected<Error> no_such_depth(const ModelOptions& options, int64_t depth, bool three_stages, const char* what) {
  return fail(Code::kUsage, "network '{}' cannot have {} layers for {}: the depth must be {}", options.network, depth,
              what,
              three_stages ? "6n+2 below 164 (20, 56, 110) or 9n+2 from 164 on (164, 1001)"
                           : "18, 34, 50, 101, 152, 200 or 269");
}

// Chooses the stages depending on the image's height. Images with a height of 29 to 32 get four stages with a small
// stem, except in ResNeXt, where they get three stages.
Result<Plan> plan_by_height(const ModelOptions& options, int64_t depth, int64_t height_of_three_stages = 28) {
  const int64_t height = options.image[1];
  const bool three_stages = height <= height_of_three_stages;
  if (depth == 0) depth = three_stages ? 110 : 50;
  std::optional<Plan> plan = three_stages ? plan_of_3_stages(depth) : plan_of_4_stages(depth, height <= 32);
  if (plan) return *plan;
  const std::string images =
      fmt::format("images of {} {} pixels", three_stages ? "up to" : "more than", height_of_three_stages);
  return no_such_depth(options, depth, three_stages, images.c_str());
}

// Chooses stages and stem depending on the data set. Unknown data sets are treated like ImageNet, as in MXNet-G's
// script.
Result<Plan> plan_by_data_type(const ModelOptions& options, int64_t depth) {
  const std::string& type = options.data_type;
  const bool three_stages = type == "cifar10" || type == "cifar100";
  if (type == "mnist" || type == "idx") {
    return fail(Code::kUsage, "network '{}' exists for cifar10, cifar100 and imagenet, not for {}", options.network,
                type);
  }
  if (depth == 0) depth = 50;
  std::optional<Plan> plan = three_stages ? plan_of_3_stages(depth) : plan_of_4_stages(depth, false);
  if (plan) return *plan;
  return no_such_depth(options, depth, three_stages, three_stages ? type.c_str() : "imagenet");
}

constexpr std::string_view kNormStated = "eps fix_gamma momentum";
constexpr Stated kStated1x{.convolution = "pad stride workspace=256", .batch_norm = kNormStated};
constexpr Stated kStatedMxnetG{.convolution = "pad stride workspace=512", .batch_norm = kNormStated};
constexpr std::string_view kProjection1x = "stride workspace=256", kProjectionMxnetG = "stride workspace=512";

// The common parts of v1 and v2. `s` in names is stage<i>_unit<j>.
class Residual {
 public:
  Residual(Builder& b, const ModelOptions& options, const Plan& plan, std::string_view projection_stated)
      : b_(b), options_(options), plan_(plan), projection_stated_(projection_stated) {}

  NodeId convolve(const std::string& name, const Convolution& op, NodeId x) { return b_.add(name, op, {x}); }
  // The convolution of a shortcut. The scripts state no padding for it.
  NodeId project(const std::string& name, int64_t filters, int64_t stride, NodeId x) {
    x = convolve(name, convolution_no_bias(filters, 1, stride), x);
    b_.state(x, projection_stated_);
    return x;
  }
  NodeId norm(const std::string& name, NodeId x, bool fix_gamma = false) {
    return norm(name, x, options_.bn_momentum, fix_gamma);
  }
  NodeId norm(const std::string& name, NodeId x, double momentum, bool fix_gamma) {
    return b_.add(name, BatchNorm{.epsilon = 2e-5, .momentum = momentum, .fix_gamma = fix_gamma}, {x});
  }
  NodeId relu(const std::string& name, NodeId x) { return b_.add(name, Activation{}, {x}); }
  NodeId plus(NodeId a, NodeId b) { return b_.add(Add{}, {a, b}); }

  // Builds conv0, bn0, relu0 and the pooling that large images need.
  NodeId large_stem(NodeId x) {
    x = convolve("conv0", convolution_no_bias(plan_.filters[0], 7, 2, 3), x);
    x = relu("relu0", norm("bn0", x));
    return b_.add(pooling(Pooling::Kind::kMax, 3, 2, 1), {x});
  }
  NodeId small_stem(NodeId x) { return convolve("conv0", convolution_no_bias(plan_.filters[0], 3, 1, 1), x); }

  // Builds all units with unit(s, x, filters, stride, first). The first unit of each stage has a projection.
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
    // The pooling is global. MXNet's scripts still give it a kernel of 7, so symbol files state it too.
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
  // Attributes that the nodes of projections state in symbol files (Builder::state).
  std::string_view projection_stated_;
};

// The differences between MXNet 1.x and MXNet-G in v2.
struct V2 {
  Stated stated;
  std::string_view projection_stated;
  bool identity;         // whether an Identity node follows the input
  double unit_momentum;  // momentum of the batch normalizations in the units
};

Graph pre_activated(const ModelOptions& options, const Plan& plan, const V2& version) {
  Builder b(version.stated);
  Residual r(b, options, plan, version.projection_stated);
  const auto norm = [&](const std::string& name, NodeId in) { return r.norm(name, in, version.unit_momentum, false); };
  NodeId x = version.identity ? b.add("id", Identity{}, {b.data()}) : b.data();
  x = r.norm("bn_data", x, true);
  x = plan.small_stem ? r.small_stem(x) : r.large_stem(x);
  x = r.stages(x, [&](const std::string& s, NodeId in, int64_t filters, int64_t stride, bool first) {
    const NodeId act = r.relu(s + "_relu1", norm(s + "_bn1", in));
    NodeId y = 0;
    if (plan.bottleneck) {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters / 4, 1), act);
      y = r.relu(s + "_relu2", norm(s + "_bn2", y));
      y = r.convolve(s + "_conv2", convolution_no_bias(filters / 4, 3, stride, 1), y);
      y = r.relu(s + "_relu3", norm(s + "_bn3", y));
      y = r.convolve(s + "_conv3", convolution_no_bias(filters, 1), y);
    } else {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters, 3, stride, 1), act);
      y = r.relu(s + "_relu2", norm(s + "_bn2", y));
      y = r.convolve(s + "_conv2", convolution_no_bias(filters, 3, 1, 1), y);
    }
    return r.plus(y, first ? r.project(s + "_sc", filters, stride, act) : in);
  });
  x = r.relu("relu1", r.norm("bn1", x));
  return r.head(x);
}

// Which convolution of a bottleneck has the stride: in v1 the first one, in v1.5 the 3x3 convolution.
enum class Stride : uint8_t { kFirst, kMiddle };

Graph post_activated(const ModelOptions& options, const Plan& plan, Stride where) {
  Builder b(kStated1x);
  Residual r(b, options, plan, kProjection1x);
  NodeId x = b.add("id", Identity{}, {b.data()});
  x = plan.small_stem ? r.norm("bn0", r.small_stem(x)) : r.large_stem(x);
  x = r.stages(x, [&](const std::string& s, NodeId in, int64_t filters, int64_t stride, bool first) {
    NodeId y = 0;
    if (plan.bottleneck) {
      const int64_t of_first = where == Stride::kFirst ? stride : 1;
      y = r.convolve(s + "_conv1", convolution_no_bias(filters / 4, 1, of_first), in);
      y = r.relu(s + "_relu1", r.norm(s + "_bn1", y));
      y = r.convolve(s + "_conv2", convolution_no_bias(filters / 4, 3, stride / of_first, 1), y);
      y = r.relu(s + "_relu2", r.norm(s + "_bn2", y));
      y = r.norm(s + "_bn3", r.convolve(s + "_conv3", convolution_no_bias(filters, 1), y));
    } else {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters, 3, stride, 1), in);
      y = r.relu(s + "_relu1", r.norm(s + "_bn1", y));
      y = r.norm(s + "_bn2", r.convolve(s + "_conv2", convolution_no_bias(filters, 3, 1, 1), y));
    }
    if (!first) return r.relu(s + "_relu3", r.plus(y, in));
    const NodeId projected = r.project(s + "_conv1sc", filters, stride, in);
    return r.relu(s + "_relu3", r.plus(y, r.norm(s + "_sc", projected)));
  });
  return r.head(x);
}

// ResNeXt: like v1, but the middle convolution of a bottleneck is wide and has groups.
Graph grouped(const ModelOptions& options, const Plan& plan) {
  Builder b(kStated1x);
  Residual r(b, options, plan, kProjection1x);
  NodeId x = r.norm("bn_data", b.add("id", Identity{}, {b.data()}), true);
  x = plan.small_stem ? r.small_stem(x) : r.large_stem(x);
  x = r.stages(x, [&](const std::string& s, NodeId in, int64_t filters, int64_t stride, bool first) {
    NodeId y = 0;
    if (plan.bottleneck) {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters / 2, 1), in);
      y = r.relu(s + "_relu1", r.norm(s + "_bn1", y));
      Convolution middle = convolution_no_bias(filters / 2, 3, stride, 1);
      middle.groups = options.num_group;
      y = r.relu(s + "_relu2", r.norm(s + "_bn2", r.convolve(s + "_conv2", middle, y)));
      y = r.norm(s + "_bn3", r.convolve(s + "_conv3", convolution_no_bias(filters, 1), y));
    } else {
      y = r.convolve(s + "_conv1", convolution_no_bias(filters, 3, stride, 1), in);
      y = r.relu(s + "_relu1", r.norm(s + "_bn1", y));
      y = r.norm(s + "_bn2", r.convolve(s + "_conv2", convolution_no_bias(filters, 3, 1, 1), y));
    }
    if (!first) return r.relu(s + "_relu", r.plus(y, in));
    const NodeId projected = r.project(s + "_sc", filters, stride, in);
    return r.relu(s + "_relu", r.plus(y, r.norm(s + "_sc_bn", projected)));
  });
  return r.head(x);
}

}  // namespace

Result<Graph> resnet_v2(const ModelOptions& options, int64_t depth) {
  DT_TRY(const Plan plan, plan_by_height(options, depth));
  return pre_activated(options, plan,
                       {.stated = kStated1x,
                        .projection_stated = kProjection1x,
                        .identity = true,
                        .unit_momentum = options.bn_momentum});
}

// In this version --bn-mom applies only to the stem and the tail; the momentum in the units is fixed.
Result<Graph> resnet_v2_of_mxnet_g(const ModelOptions& options, int64_t depth) {
  DT_TRY(const Plan plan, plan_by_data_type(options, depth));
  return pre_activated(
      options, plan,
      {.stated = kStatedMxnetG, .projection_stated = kProjectionMxnetG, .identity = false, .unit_momentum = 0.9});
}

Result<Graph> resnet_v1(const ModelOptions& options, int64_t depth) {
  DT_TRY(const Plan plan, plan_by_height(options, depth));
  return post_activated(options, plan, Stride::kFirst);
}

Result<Graph> resnet_v1_5(const ModelOptions& options, int64_t depth) {
  DT_TRY(const Plan plan, plan_by_height(options, depth));
  return post_activated(options, plan, Stride::kMiddle);
}

Result<Graph> resnext(const ModelOptions& options, int64_t depth) {
  constexpr int64_t kImageOfThreeStages = 32;
  DT_TRY(const Plan plan, plan_by_height(options, depth, kImageOfThreeStages));
  return grouped(options, plan);
}

}  // namespace dtrain::graph
