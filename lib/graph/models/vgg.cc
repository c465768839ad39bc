// VGG (arXiv:1409.1556): stages of 3 x 3 convolutions, with a pooling after each stage that halves the map.
#include <fmt/core.h>

#include <array>

#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

// The number of convolutions in each stage.
struct VggPlan {
  int64_t depth;
  std::array<int64_t, 5> convolutions;
};
constexpr VggPlan kVggPlans[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
constexpr std::array<int64_t, 5> kVggFilters = {64, 128, 256, 512, 512};

// The differences between the versions of MXNet.
struct VggVersion {
  Pooling::Rounding rounding = Pooling::Rounding::kValid;
  bool last_relu_misnamed = false;  // relu5_2 is called "conv1_2", as in the first scripts
  bool batch_norm = false;
};

NodeId vgg_stages(Builder& b, const VggPlan& plan, const VggVersion& version) {
  NodeId x = b.data();
  for (size_t stage = 0; stage < plan.convolutions.size(); stage++) {
    for (int64_t j = 1; j <= plan.convolutions.at(stage); j++) {
      const std::string at = fmt::format("{}_{}", stage + 1, j);
      x = b.add("conv" + at, convolution(kVggFilters.at(stage), 3, 1, 1), {x});
      if (version.batch_norm) x = b.add("bn" + at, BatchNorm{}, {x});
      const bool misnamed = version.last_relu_misnamed && at == "5_2";
      x = b.add(misnamed ? "conv1_2" : "relu" + at, Activation{}, {x});
    }
    x = b.add(fmt::format("pool{}", stage + 1), pooling(Pooling::Kind::kMax, 2, 2, 0, version.rounding), {x});
  }
  return x;
}

Graph vgg_graph(const ModelOptions& options, const VggPlan& plan, const VggVersion& version) {
  constexpr int64_t kHidden = 4096;
  Builder b;
  NodeId x = b.add("flatten", Flatten{}, {vgg_stages(b, plan, version)});
  for (const char* layer : {"6", "7"}) {
    const std::string at = layer;
    x = b.add("relu" + at, Activation{}, {b.add("fc" + at, FullyConnected{kHidden}, {x})});
    x = b.add("drop" + at, Dropout{0.5}, {x});
    b.state(x, "p");
  }
  x = b.add("fc8", FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

// VGG as in the first versions, which have only 11 layers.
Result<Graph> first_vgg(const ModelOptions& options, int64_t depth, const VggVersion& version) {
  if (depth != 0 && depth != kVggPlans[0].depth) {
    return fail(Code::kUsage, "network '{}' cannot have {} layers: this version of vgg has 11", options.network, depth);
  }
  return vgg_graph(options, kVggPlans[0], version);
}

}  // namespace

Result<Graph> vgg(const ModelOptions& options, int64_t depth) {
  for (const VggPlan& plan : kVggPlans) {
    if (plan.depth == (depth == 0 ? 11 : depth)) return vgg_graph(options, plan, {.batch_norm = options.batch_norm});
  }
  return fail(Code::kUsage, "network 'vgg' cannot have {} layers: it can have 11, 13, 16 or 19", depth);
}

Result<Graph> vgg_of_mxnet_g(const ModelOptions& options, int64_t depth) {
  return first_vgg(options, depth, {.last_relu_misnamed = true});
}

Result<Graph> vgg_of_v07(const ModelOptions& options, int64_t depth) {
  return first_vgg(options, depth, {.rounding = Pooling::Rounding::kV07, .last_relu_misnamed = true});
}

}  // namespace dtrain::graph
