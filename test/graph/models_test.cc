#include "graph/models/models.h"

#include <algorithm>

#include "built.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::graph;

namespace {

std::vector<std::string> names(const std::vector<ParameterInfo>& infos) {
  std::vector<std::string> result;
  for (const ParameterInfo& info : infos) result.push_back(info.name);
  return result;
}

std::vector<std::string> node_names(const Graph& graph) {
  std::vector<std::string> result;
  for (const NodeId id : graph.canonical_order()) result.push_back(graph.node(id).name);
  return result;
}

// The shape of one parameter. Fails the test if there is none of that name.
Shape shape_of(const Built& built, const std::string& name) {
  for (const ParameterInfo& p : built.shapes.parameters) {
    if (p.name == name) return p.shape;
  }
  FAIL("no parameter " << name);
  return {};
}

Shape output_of(const Built& built, const std::string& name) {
  for (NodeId id = 0; id < built.graph.nodes().size(); id++) {
    if (built.graph.node(id).name == name) return built.shapes.output[id];
  }
  FAIL("no node " << name);
  return {};
}

using Names = std::vector<std::string>;

Names first(Names names, size_t count) {
  names.resize(std::min(count, names.size()));
  return names;
}
Names last(const Names& names, size_t count) {
  return {names.end() - static_cast<std::ptrdiff_t>(count), names.end()};
}

std::string message(const std::string& network, int64_t layers = 0, const Shape& image = {3, 28, 28}) {
  const Result<Graph> result = build_model({.network = network, .num_layers = layers, .image = image});
  if (result) return "built";
  CHECK(result.error().code == Code::kUsage);
  return result.error().message;
}

}  // namespace

TEST_CASE("mlp and lenet have MXNet's names, order and shapes", "[graph][models]") {
  const Built lenet = build({.network = "lenet", .image = {1, 28, 28}});
  CHECK(names(lenet.shapes.parameters) == Names{"convolution0_weight", "convolution0_bias", "convolution1_weight",
                                                "convolution1_bias", "fullyconnected0_weight", "fullyconnected0_bias",
                                                "fullyconnected1_weight", "fullyconnected1_bias"});
  CHECK(node_names(lenet.graph) == Names{"data", "convolution0", "activation0", "pooling0", "convolution1",
                                         "activation1", "pooling1", "flatten0", "fullyconnected0", "activation2",
                                         "fullyconnected1", "softmax"});
  CHECK(output_of(lenet, "pooling0") == Shape{20, 12, 12});
  CHECK(output_of(lenet, "pooling1") == Shape{50, 4, 4});
  CHECK(shape_of(lenet, "convolution1_weight") == Shape{50, 20, 5, 5});
  CHECK(shape_of(lenet, "fullyconnected0_weight") == Shape{500, 800});

  const Built mlp = build({.network = "mlp", .image = {1, 28, 28}});
  CHECK(names(mlp.shapes.parameters) ==
        Names{"fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "fc3_weight", "fc3_bias"});
  CHECK(node_names(mlp.graph) == Names{"data", "flatten0", "fc1", "relu1", "fc2", "relu2", "fc3", "softmax"});
}

TEST_CASE("3conv pools as MXNet-G does, rounding down", "[graph][models]") {
  const Built net = build({.network = "3conv"});
  CHECK(output_of(net, "pooling0") == Shape{32, 13, 13});
  CHECK(output_of(net, "pooling1") == Shape{32, 6, 6});
  CHECK(output_of(net, "final_pool") == Shape{64, 2, 2});
  CHECK(names(net.shapes.parameters) ==
        Names{"convolution0_weight", "convolution0_bias", "batchnorm0_gamma", "batchnorm0_beta", "convolution1_weight",
              "convolution1_bias", "batchnorm1_gamma", "batchnorm1_beta", "convolution2_weight", "convolution2_bias",
              "batchnorm2_gamma", "batchnorm2_beta", "fullyconnected0_weight", "fullyconnected0_bias",
              "fullyconnected1_weight", "fullyconnected1_bias"});
  CHECK(last(node_names(net.graph), 5) ==
        Names{"flatten0", "fullyconnected0", "activation3", "fullyconnected1", "softmax"});
}

TEST_CASE("inception for 28 pixels has automatic names in MXNet-G's form and given ones in 1.x's", "[graph][models]") {
  const Built g = build({.network = "inception-bn-28-small"});
  CHECK(first(names(g.shapes.parameters), 8) == Names{"convolution0_weight", "convolution0_bias", "batchnorm0_gamma",
                                                      "batchnorm0_beta", "convolution1_weight", "convolution1_bias",
                                                      "batchnorm1_gamma", "batchnorm1_beta"});
  CHECK(last(names(g.shapes.parameters), 2) == Names{"fc1_weight", "fc1_bias"});
  CHECK(last(node_names(g.graph), 8) ==
        Names{"convolution18", "batchnorm18", "activation18", "concat9", "global_pool", "flatten1", "fc1", "softmax"});
  CHECK(shape_of(g, "convolution5_weight") == Shape{80, 80, 3, 3});    // in3c, which halves the map
  CHECK(shape_of(g, "convolution14_weight") == Shape{96, 144, 3, 3});  // in4e
  CHECK(output_of(g, "pooling0") == Shape{80, 14, 14});
  CHECK(output_of(g, "concat9") == Shape{336, 7, 7});

  const Built v1 = build({.network = "inception-bn"});
  CHECK(first(names(v1.shapes.parameters), 6) ==
        Names{"conv_1_weight", "conv_1_bias", "bn_1_gamma", "bn_1_beta", "conv_in3a_1x1_weight", "conv_in3a_1x1_bias"});
  CHECK(shape_of(v1, "conv_in3c_conv_weight") == Shape{80, 80, 3, 3});
  CHECK(output_of(v1, "in3c_pool") == Shape{80, 14, 14});
  CHECK(output_of(v1, "in5b_ch_concat") == Shape{336, 7, 7});
  CHECK(last(node_names(v1.graph), 4) == Names{"global_pool", "flatten0", "fullyconnected0", "softmax"});
}

TEST_CASE("inception for 224 pixels has 1.x's names and rounds down in its stem", "[graph][models]") {
  const Built net = build({.network = "inception-bn", .num_classes = 1000, .image = {3, 224, 224}});
  CHECK(output_of(net, "relu_1") == Shape{64, 112, 112});
  CHECK(output_of(net, "pool_1") == Shape{64, 55, 55});
  CHECK(output_of(net, "pool_2") == Shape{192, 27, 27});
  CHECK(output_of(net, "ch_concat_3a_chconcat") == Shape{256, 27, 27});
  CHECK(output_of(net, "avg_pool_3a_pool") == Shape{192, 27, 27});
  CHECK(output_of(net, "ch_concat_3c_chconcat") == Shape{576, 14, 14});
  CHECK(output_of(net, "ch_concat_4e_chconcat") == Shape{1056, 7, 7});
  CHECK(output_of(net, "max_pool_5b_pool") == Shape{1024, 7, 7});
  CHECK(output_of(net, "ch_concat_5b_chconcat") == Shape{1024, 7, 7});
  const Names parameters = names(net.shapes.parameters);
  CHECK(first(parameters, 12) == Names{"conv_1_weight", "conv_1_bias", "bn_1_gamma", "bn_1_beta", "conv_2_red_weight",
                                       "conv_2_red_bias", "bn_2_red_gamma", "bn_2_red_beta", "conv_2_weight",
                                       "conv_2_bias", "bn_2_gamma", "bn_2_beta"});
  // Branches in the order of the concatenation.
  const auto place = [&](const std::string& name) {
    return std::find(parameters.begin(), parameters.end(), name) - parameters.begin();
  };
  const Names of_3a = {"conv_3a_1x1_weight",          "conv_3a_3x3_reduce_weight",
                       "conv_3a_3x3_weight",          "conv_3a_double_3x3_reduce_weight",
                       "conv_3a_double_3x3_0_weight", "conv_3a_double_3x3_1_weight",
                       "conv_3a_proj_weight"};
  for (size_t i = 1; i < of_3a.size(); i++) CHECK(place(of_3a[i]) == place(of_3a[i - 1]) + 4);
}

TEST_CASE("ResNet-50 v2 and v1 have the canonical order of the documented examples", "[graph][models]") {
  const Built v2 = build({.network = "resnet-50", .num_classes = 1000, .image = {3, 224, 224}});
  CHECK(first(names(v2.shapes.parameters), 16) ==
        Names{"bn_data_gamma", "bn_data_beta", "conv0_weight", "bn0_gamma", "bn0_beta", "stage1_unit1_bn1_gamma",
              "stage1_unit1_bn1_beta", "stage1_unit1_conv1_weight", "stage1_unit1_bn2_gamma", "stage1_unit1_bn2_beta",
              "stage1_unit1_conv2_weight", "stage1_unit1_bn3_gamma", "stage1_unit1_bn3_beta",
              "stage1_unit1_conv3_weight", "stage1_unit1_sc_weight", "stage1_unit2_bn1_gamma"});
  CHECK(last(names(v2.shapes.parameters), 5) ==
        Names{"stage4_unit3_conv3_weight", "bn1_gamma", "bn1_beta", "fc1_weight", "fc1_bias"});
  CHECK(first(names(v2.shapes.statistics), 3) == Names{"bn_data_moving_mean", "bn_data_moving_var", "bn0_moving_mean"});
  CHECK(first(node_names(v2.graph), 7) == Names{"data", "id", "bn_data", "conv0", "bn0", "relu0", "pooling0"});
  CHECK(last(node_names(v2.graph), 7) == Names{"_plus15", "bn1", "relu1", "pool1", "flatten0", "fc1", "softmax"});
  CHECK(output_of(v2, "pooling0") == Shape{64, 56, 56});
  CHECK(output_of(v2, "_plus15") == Shape{2048, 7, 7});

  const Built v1 = build({.network = "resnet-v1-50", .num_classes = 1000, .image = {3, 224, 224}});
  CHECK(first(names(v1.shapes.parameters), 16) ==
        Names{"conv0_weight", "bn0_gamma", "bn0_beta", "stage1_unit1_conv1_weight", "stage1_unit1_bn1_gamma",
              "stage1_unit1_bn1_beta", "stage1_unit1_conv2_weight", "stage1_unit1_bn2_gamma", "stage1_unit1_bn2_beta",
              "stage1_unit1_conv3_weight", "stage1_unit1_bn3_gamma", "stage1_unit1_bn3_beta",
              "stage1_unit1_conv1sc_weight", "stage1_unit1_sc_gamma", "stage1_unit1_sc_beta",
              "stage1_unit2_conv1_weight"});
  // In a bottleneck, v1 has the stride on the first convolution, v2 on the second.
  CHECK(output_of(v1, "stage2_unit1_conv1") == Shape{128, 28, 28});
  CHECK(output_of(v2, "stage2_unit1_conv1") == Shape{128, 56, 56});
  CHECK(last(node_names(v1.graph), 5) == Names{"stage4_unit3_relu3", "pool1", "flatten0", "fc1", "softmax"});
}

TEST_CASE("ResNets for small images have the small stem, with a batch norm only in v1", "[graph][models]") {
  CHECK(first(node_names(build({.network = "resnet-20"}).graph), 5) ==
        Names{"data", "id", "bn_data", "conv0", "stage1_unit1_bn1"});
  CHECK(first(node_names(build({.network = "resnet-v1-20"}).graph), 5) ==
        Names{"data", "id", "conv0", "bn0", "stage1_unit1_conv1"});
  CHECK(first(node_names(build({.network = "resnet-18", .image = {3, 32, 32}}).graph), 5) ==
        Names{"data", "id", "bn_data", "conv0", "stage1_unit1_bn1"});
}

// In the order of parameters, the shortcuts of a block that halves the map lie between the branches of the block before
// it.
TEST_CASE("cross has MXNet-G's names and the order of its sums", "[graph][models]") {
  const Built net = build({.network = "cross-56", .num_classes = 100});
  const Names parameters = names(net.shapes.parameters);
  const auto convolutions = [&](const Names& all) {
    Names result;
    for (const std::string& name : all) {
      if (name.ends_with("_conv_weight")) result.push_back(name.substr(0, name.size() - 12));
    }
    return result;
  };
  CHECK(first(parameters, 7) == Names{"g0_conv_weight", "g0_bn_gamma", "g0_bn_beta", "g1_b1_d1_two1_conv_weight",
                                      "g1_b1_d1_two1_bn_gamma", "g1_b1_d1_two1_bn_beta", "g1_b1_d1_two2_conv_weight"});
  const Names order = convolutions(parameters);
  const auto at = std::find(order.begin(), order.end(), "g1_b4_d1_two1");
  REQUIRE(order.end() - at >= 10);
  CHECK(Names(at, at + 10) == Names{"g1_b4_d1_two1", "g1_b4_d1_two2", "g2_b1_l1_line", "g1_b4_d2_two1", "g1_b4_d2_two2",
                                    "g2_b1_l2_line", "g2_b1_d1_two1", "g2_b1_d1_two2", "g2_b1_d2_two1",
                                    "g2_b1_d2_two2"});
  CHECK(last(order, 2) == Names{"g3_b5_d2_two1", "g3_b5_d2_two2"});
  CHECK(last(parameters, 2) == Names{"cls_fc_weight", "cls_fc_bias"});
  CHECK(last(node_names(net.graph), 5) == Names{"g3_b5_relu1", "cls_pool", "cls_flatten", "cls_fc", "softmax"});
  CHECK(output_of(net, "g3_b5_relu1") == Shape{64, 7, 7});
  CHECK(output_of(net, "_mulscalar0") == Shape{16, 28, 28});
  const Built wide = build({.network = "cross", .num_classes = 100, .widen_factor = 2});
  CHECK(wide.shapes.parameter_elements() == 3545348);
}

TEST_CASE("inception of v0.7 rounds its poolings up and has its own names", "[graph][models]") {
  const auto of = [](const char* network) {
    return build({.network = network, .num_classes = 1000, .image = {3, 224, 224}});
  };
  const Built up = of("inception-bn@v0.7"), down = of("inception-bn@mxnet-g");
  CHECK(output_of(up, "pool1") == Shape{64, 56, 56});
  CHECK(output_of(up, "pool2") == Shape{192, 28, 28});
  CHECK(output_of(up, "max_pool_3c_pool") == Shape{320, 14, 14});
  CHECK(output_of(down, "pool1") == Shape{64, 55, 55});
  CHECK(output_of(down, "pool2") == Shape{192, 27, 27});
  for (const Built* net : {&up, &down}) {
    CHECK(first(names(net->shapes.parameters), 9) ==
          Names{"conv_conv1_weight", "conv_conv1_bias", "bn_conv1_gamma", "bn_conv1_beta", "conv_conv2red_weight",
                "conv_conv2red_bias", "bn_conv2red_gamma", "bn_conv2red_beta", "conv_conv2_weight"});
    CHECK(last(node_names(net->graph), 4) == Names{"global_pool", "flatten", "fc1", "softmax"});
    for (const Node& node : net->graph.nodes()) {
      if (const auto* norm = std::get_if<BatchNorm>(&node.op)) CHECK((norm->fix_gamma && norm->epsilon == 1e-3));
    }
  }
  // With v0.7's rounding, pools that halve the map need no padding to match the parallel convolution.
  const auto pad_of = [](const Built& net, const std::string& name) {
    for (const Node& node : net.graph.nodes()) {
      if (node.name == name) return std::get<Pooling>(node.op).pad_h;
    }
    return int64_t{-1};
  };
  CHECK(pad_of(up, "max_pool_3c_pool") == 0);
  CHECK(pad_of(down, "max_pool_3c_pool") == 1);
  CHECK(pad_of(build({.network = "inception-bn-28-small@v0.7"}), "pooling0") == 0);
  CHECK(pad_of(build({.network = "inception-bn-28-small"}), "pooling0") == 1);
  CHECK(names(build({.network = "inception-bn-28-small@v0.7"}).shapes.parameters) ==
        names(build({.network = "inception-bn-28-small"}).shapes.parameters));
}

TEST_CASE("resnet@mxnet-g takes its stages from the data set, for images of any height", "[graph][models]") {
  const auto of = [](int64_t layers, const Shape& image, const std::string& type) {
    return build({.network = "resnet@mxnet-g", .num_layers = layers, .image = image, .data_type = type});
  };
  const auto macs = [](const Built& net) { return multiply_accumulates(net.graph, net.shapes); };
  for (const char* type : {"cifar10", "cifar100"}) CHECK(macs(of(20, {3, 32, 32}, type)) == 41075328);
  CHECK(macs(of(110, {3, 32, 32}, "cifar10")) == 253411968);
  CHECK(macs(of(164, {3, 32, 32}, "cifar10")) == 247646720);
  CHECK(macs(of(20, {3, 28, 28}, "cifar10")) == 31448448);
  CHECK(of(164, {3, 32, 32}, "cifar10").shapes.parameters.size() == 496);
  CHECK(of(0, {3, 32, 32}, "cifar10").shapes.parameters.size() ==
        of(50, {3, 32, 32}, "cifar10").shapes.parameters.size());
  const Built large = build({.network = "resnet-50@mxnet-g", .num_classes = 1000, .image = {3, 224, 224}});
  CHECK(macs(large) == 4089184256);
  CHECK(large.shapes.parameter_elements() == 25549486);
  CHECK(first(node_names(large.graph), 4) == Names{"data", "bn_data", "conv0", "bn0"});
  // The stems differ.
  CHECK(macs(of(0, {3, 32, 32}, "imagenet")) != macs(build({.network = "resnet-50", .image = {3, 32, 32}})));
  const auto refused = [](int64_t layers, const std::string& type) {
    return build_model({.network = "resnet@mxnet-g", .num_layers = layers, .data_type = type}).error().message;
  };
  CHECK(refused(20, "mnist") == "network 'resnet@mxnet-g' exists for cifar10, cifar100 and imagenet, not for mnist");
  CHECK_THAT(refused(18, "cifar10"), Catch::Contains("cannot have 18 layers for cifar10: the depth must be 6n+2"));
  CHECK_THAT(refused(20, "imagenet"), Catch::Contains("cannot have 20 layers for imagenet: the depth must be 18, 34"));
}

TEST_CASE("resnet@mxnet-g applies --bn-mom only outside the residual units", "[graph][models]") {
  const Built net = build({.network = "resnet-20@mxnet-g", .bn_momentum = 0.8, .data_type = "cifar10"});
  for (const Node& node : net.graph.nodes()) {
    const auto* norm = std::get_if<BatchNorm>(&node.op);
    if (norm != nullptr) CHECK(norm->momentum == (node.name.starts_with("stage") ? 0.9 : 0.8));
  }
}

TEST_CASE("resnet-zscore lists its shortcuts first, and has its own rules for learning", "[graph][models]") {
  const Built net = build({.network = "resnet-zscore", .image = {3, 32, 32}});
  const Names parameters = names(net.shapes.parameters);
  CHECK(first(parameters, 6) == Names{"zscore_gamma", "zscore_beta", "conv0_weight", "conv0_bn_gamma", "conv0_bn_beta",
                                      "level1_block1_conv1_weight"});
  const auto proj = std::find(parameters.begin(), parameters.end(), "level2_block1_proj_weight");
  REQUIRE(proj != parameters.end());
  CHECK(*(proj + 1) == "level2_block1_conv1_weight");
  CHECK(shape_of(net, "level2_block1_proj_weight") == Shape{32, 16, 2, 2});
  CHECK(last(node_names(net.graph), 5) == Names{"level3_block9_relu", "pooling0", "flatten0", "fc", "softmax"});

  const auto fixed = [](const std::string& name) {
    return name.find("proj") != name.npos || name.starts_with("zscore");
  };
  for (const ParameterInfo& p : net.shapes.parameters) {
    INFO(p.name);
    CHECK(p.rule.learning_rate == (fixed(p.name) ? std::optional(0.0) : std::nullopt));
    const bool usual = p.kind == ParameterKind::kWeight || p.kind == ParameterKind::kGamma;
    CHECK(p.rule.weight_decay.value_or(usual ? 1 : 0) == (fixed(p.name) ? 0 : 1));
    CHECK(p.rule.initial.has_value() == (p.name.find("proj") != p.name.npos || p.name == "fc_weight"));
  }
  for (const ParameterInfo& s : net.shapes.statistics) {
    REQUIRE(s.rule.initial);
    CHECK(s.rule.initial->magnitude == 0);  // of the moving variances too, which usually begin at 1
  }
  CHECK_THAT(message("resnet-zscore"), Catch::Contains("needs images of 32 x 32 pixels, not (3, 28, 28)"));
}

// The projection is built last, so its number is the highest. It is the first operand of the sum, so its parameters
// come first.
TEST_CASE("resnet-28-small numbers its layers by construction and orders its parameters by the sums",
          "[graph][models]") {
  const Built net = build({.network = "resnet-28-small", .num_layers = 20});
  const Names parameters = names(net.shapes.parameters);
  const auto at = std::find(parameters.begin(), parameters.end(), "convolution9_weight");
  REQUIRE(at != parameters.end());
  CHECK(shape_of(net, "convolution9_weight") == Shape{32, 16, 1, 1});
  CHECK(*(at + 4) == "convolution7_weight");
  CHECK(last(node_names(net.graph), 6) == Names{"_plus8", "activation18", "pooling0", "flatten", "fc1", "softmax"});
}

TEST_CASE("options change the nodes", "[graph][models]") {
  const Built net =
      build({.network = "inception-bn-28-small", .num_classes = 7, .bn_momentum = 0.8, .smooth_alpha = 0.1});
  CHECK(std::get<SoftmaxOutput>(net.graph.node(net.graph.output()).op).smooth_alpha == 0.1);
  size_t norms = 0;
  for (const Node& node : net.graph.nodes()) {
    if (const auto* norm = std::get_if<BatchNorm>(&node.op)) {
      CHECK(norm->momentum == 0.8);
      norms++;
    }
  }
  CHECK(norms == 19);
  CHECK(net.shapes.heads[0].outputs == 7);
  // --num-layers wins even if the name has a depth, as a preset's may.
  CHECK(build({.network = "resnet-110", .num_layers = 20}).shapes.parameter_elements() == 272544);
}

TEST_CASE("inception-v3 refuses images below 299 x 299", "[graph][models]") {
  const auto refusal = [](std::vector<int64_t> image) {
    return build_model({.network = "inception-v3", .image = std::move(image)}).error().message;
  };
  CHECK(refusal({3, 298, 320}) == "network 'inception-v3' needs images of at least 299 x 299, not 298 x 320");
  CHECK(refusal({3, 299, 224}) == "network 'inception-v3' needs images of at least 299 x 299, not 299 x 224");
}

TEST_CASE("networks that do not exist are refused, with the nearest name and the list", "[graph][models]") {
  const std::string list =
      "3conv, alexnet, cross, googlenet, inception-bn, inception-bn-28-small, inception-bn-full, inception-v3, lenet, "
      "lenet-stn, mlp, resnet, resnet-28-small, resnet-v1, resnet-v1.5, resnet-zscore, resnext, vgg";
  CHECK(message("lennet") == "unknown network 'lennet': did you mean 'lenet'? known networks are " + list);
  CHECK(message("resnet50") == "unknown network 'resnet50': did you mean 'resnet-50'? known networks are " + list);
  CHECK(message("rsenet-18") == "unknown network 'rsenet-18': did you mean 'resnet-18'? known networks are " + list);
  CHECK(message("transformer") == "unknown network 'transformer': known networks are " + list);
  CHECK(message("") == "unknown network '': known networks are " + list);
  CHECK(message("lenet@v0.7") ==
        "network 'lenet@v0.7': dtrain does not have 'lenet' in version 'v0.7'; use lenet (MXNet 1.x)");
  CHECK(message("resnet-20@v0.7") ==
        "network 'resnet-20@v0.7': dtrain does not have 'resnet-20' in version 'v0.7'; use resnet-20 (MXNet 1.x) or "
        "resnet-20@mxnet-g");
  CHECK(message("lenet@1.x") == "network 'lenet@1.x': unknown version '1.x'; use lenet (MXNet 1.x)");
  CHECK(message("3conv@v2") == "network '3conv@v2': unknown version 'v2'; use 3conv@mxnet-g");
  CHECK(message("resnet-28-small@mxnet-g", 20) == "built");
}

TEST_CASE("depths that do not exist are refused", "[graph][models]") {
  CHECK_THAT(message("resnet-18"), Catch::Contains("cannot have 18 layers for images of up to 28 pixels"));
  CHECK_THAT(message("resnet-20", 0, {3, 32, 32}), Catch::Contains("cannot have 20 layers for images of more than 28"));
  CHECK_THAT(message("resnet", 170), Catch::Contains("cannot have 170 layers"));
  CHECK_THAT(message("resnet-28-small", 21), Catch::Contains("cannot have 21 layers"));
  CHECK_THAT(message("resnet-28-small", 2), Catch::Contains("cannot have 2 layers"));
  CHECK(message("lenet-5") == "network 'lenet' has a fixed depth: it cannot have 5 layers");
  CHECK(message("mlp", 3) == "network 'mlp' has a fixed depth: it cannot have 3 layers");
  CHECK(message("vgg-12", 0, {3, 32, 32}) == "network 'vgg' cannot have 12 layers: it can have 11, 13, 16 or 19");
  CHECK(message("vgg-16@v0.7", 0, {3, 32, 32}) ==
        "network 'vgg-16@v0.7' cannot have 16 layers: this version of vgg has 11");
  CHECK_THAT(message("cross", 13), Catch::Contains("cannot have 13 layers: the depth must be at least 14"));
  CHECK(build_model({.network = "lenet", .widen_factor = 2}).error().message ==
        "network 'lenet' has a fixed width: the widen factor must be 1, not 2");
  CHECK(build_model({.network = "cross", .widen_factor = 65}).error().message ==
        "the widen factor is 65, but must be from 1 to 64");
  CHECK(build_model({.network = "resnet", .num_group = 16}).error().message ==
        "network 'resnet' has no groups: --num-group is for resnext");
  CHECK(build_model({.network = "vgg@v0.7", .batch_norm = true}).error().message ==
        "network 'vgg@v0.7' does not support --batch-norm, which is for the vgg of MXNet 1.x");
  CHECK(build_model({.network = "mlp", .add_stn = true}).error().message ==
        "network 'mlp' has no spatial transformer: --add-stn is for lenet");
  CHECK_THAT(message("resnet", -1), Catch::Contains("the number of layers is -1"));
  CHECK_THAT(message("lenet", 0, {28, 28}), Catch::Contains("the image shape must be (c, h, w), not (28, 28)"));
}
