#include "graph/symbol/write.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/models/models.h"
#include "graph/symbol/parse.h"
#include "graph/symbol/read.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::graph;
using nlohmann::json;

namespace {

Graph example() {
  Graph g;
  NodeId x = g.add("data", Input{}, {});
  x = g.add("conv0", Convolution{.filters = 8, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = false},
            {x});
  x = g.add("bn0", BatchNorm{.epsilon = 2e-5, .momentum = 0.9, .fix_gamma = false}, {x});
  x = g.add("relu0", Activation{}, {x});
  x = g.add("flatten0", Flatten{}, {x});
  x = g.add("fc1", FullyConnected{10}, {x});
  g.add("softmax", SoftmaxOutput{}, {x});
  return g;
}

// The expected file, byte for byte (docs/formats.md, "Symbol files").
const char* const kExample = R"json({
  "nodes": [
    {
      "op": "null", 
      "name": "data", 
      "inputs": []
    }, 
    {
      "op": "null", 
      "name": "conv0_weight", 
      "attrs": {
        "kernel": "(3, 3)", 
        "no_bias": "True", 
        "num_filter": "8", 
        "pad": "(1, 1)"
      }, 
      "inputs": []
    }, 
    {
      "op": "Convolution", 
      "name": "conv0", 
      "attrs": {
        "kernel": "(3, 3)", 
        "no_bias": "True", 
        "num_filter": "8", 
        "pad": "(1, 1)"
      }, 
      "inputs": [[0, 0, 0], [1, 0, 0]]
    }, 
    {
      "op": "null", 
      "name": "bn0_gamma", 
      "attrs": {
        "eps": "2e-05", 
        "fix_gamma": "False"
      }, 
      "inputs": []
    }, 
    {
      "op": "null", 
      "name": "bn0_beta", 
      "attrs": {
        "eps": "2e-05", 
        "fix_gamma": "False"
      }, 
      "inputs": []
    }, 
    {
      "op": "null", 
      "name": "bn0_moving_mean", 
      "attrs": {
        "__init__": "[\"zero\", {}]", 
        "eps": "2e-05", 
        "fix_gamma": "False"
      }, 
      "inputs": []
    }, 
    {
      "op": "null", 
      "name": "bn0_moving_var", 
      "attrs": {
        "__init__": "[\"one\", {}]", 
        "eps": "2e-05", 
        "fix_gamma": "False"
      }, 
      "inputs": []
    }, 
    {
      "op": "BatchNorm", 
      "name": "bn0", 
      "attrs": {
        "eps": "2e-05", 
        "fix_gamma": "False"
      }, 
      "inputs": [[2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 1], [6, 0, 1]]
    }, 
    {
      "op": "Activation", 
      "name": "relu0", 
      "attrs": {"act_type": "relu"}, 
      "inputs": [[7, 0, 0]]
    }, 
    {
      "op": "Flatten", 
      "name": "flatten0", 
      "inputs": [[8, 0, 0]]
    }, 
    {
      "op": "null", 
      "name": "fc1_weight", 
      "attrs": {"num_hidden": "10"}, 
      "inputs": []
    }, 
    {
      "op": "null", 
      "name": "fc1_bias", 
      "attrs": {"num_hidden": "10"}, 
      "inputs": []
    }, 
    {
      "op": "FullyConnected", 
      "name": "fc1", 
      "attrs": {"num_hidden": "10"}, 
      "inputs": [[9, 0, 0], [10, 0, 0], [11, 0, 0]]
    }, 
    {
      "op": "null", 
      "name": "softmax_label", 
      "inputs": []
    }, 
    {
      "op": "SoftmaxOutput", 
      "name": "softmax", 
      "inputs": [[12, 0, 0], [13, 0, 0]]
    }
  ], 
  "arg_nodes": [0, 1, 3, 4, 5, 6, 10, 11, 13], 
  "node_row_ptr": [
    0, 
    1, 
    2, 
    3, 
    4, 
    5, 
    6, 
    7, 
    10, 
    11, 
    12, 
    13, 
    14, 
    15, 
    16, 
    17
  ], 
  "heads": [[14, 0, 0]], 
  "attrs": {"mxnet_version": ["int", 10901]}
})json";

}  // namespace

TEST_CASE("a symbol file is equal to MXNet's byte for byte", "[graph][symbol]") {
  CHECK(symbol_text(example()) == kExample);
}

TEST_CASE("attributes are written only if they are not the default", "[graph][symbol]") {
  Graph g;
  NodeId x = g.add("data", Input{}, {});
  x = g.add("conv", Convolution{.filters = 4, .kernel_w = 7, .pad_w = 3, .groups = 2}, {x});
  const NodeId p = g.add("pool", Pooling{.kind = Pooling::Kind::kAverage, .global = true}, {x});
  const NodeId q = g.add("pool_full", Pooling{.kernel_h = 4, .kernel_w = 4, .rounding = Pooling::Rounding::kFull}, {x});
  const NodeId sum = g.add("sum", Add{}, {p, p, q});
  const NodeId half = g.add("half", Scale{0.5}, {sum});
  const NodeId fc = g.add("fc", FullyConnected{.outputs = 3, .bias = false}, {half});
  g.add("softmax", SoftmaxOutput{}, {fc});
  const json nodes = json::parse(symbol_text(g)).at("nodes");
  std::map<std::string, json> by_name;
  for (const json& node : nodes) by_name[node.at("name")] = node;
  CHECK(by_name["conv"]["attrs"] == json::parse(R"json({"kernel": "(1, 7)", "num_filter": "4", "num_group": "2",
        "pad": "(0, 3)"})json"));
  CHECK(by_name["conv"]["inputs"].size() == 3);
  CHECK(by_name["pool"]["attrs"]["global_pool"] == "True");
  CHECK(by_name["pool"]["attrs"]["pool_type"] == "avg");
  CHECK(!by_name["pool"]["attrs"].contains("pooling_convention"));
  CHECK(by_name["pool_full"]["attrs"]["pooling_convention"] == "full");
  CHECK(by_name["sum"]["op"] == "add_n");
  CHECK(by_name["sum"]["attrs"]["num_args"] == "3");
  CHECK(by_name["half"]["op"] == "_mul_scalar");
  CHECK(by_name["half"]["attrs"] == json::parse(R"({"scalar": "0.5"})"));
  CHECK(by_name["fc"]["attrs"]["no_bias"] == "True");
  CHECK(!by_name["softmax"].contains("attrs"));
}

TEST_CASE("options of operators are written and read", "[graph][symbol]") {
  Graph g;
  NodeId x = g.add("data", Input{}, {});
  x = g.add("conv", Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3, .dilation_h = 2, .dilation_w = 3}, {x});
  x = g.add("soft", Activation{Activation::Kind::kSoftsign}, {x});
  x = g.add("bn", BatchNorm{.global_statistics = true}, {x});
  x = g.add("real", Pooling{.kind = Pooling::Kind::kAverage, .kernel_h = 2, .divisor = Pooling::Divisor::kReal}, {x});
  x = g.add("sum", Pooling{.kind = Pooling::Kind::kSum, .kernel_h = 2}, {x});
  x = g.add("fc", FullyConnected{.outputs = 3}, {x});
  g.add("softmax", SoftmaxOutput{.gradient_scale = 0.5, .per_image = true}, {x});
  const std::string text = symbol_text(g);
  const Graph read = read_symbol(parse_symbol_file(text).value()).value();
  CHECK(symbol_text(read) == text);
  std::map<std::string, Op> by_name;
  for (const Node& node : read.nodes()) by_name[node.name] = node.op;
  CHECK(std::get<Convolution>(by_name["conv"]).dilation_h == 2);
  CHECK(std::get<Convolution>(by_name["conv"]).dilation_w == 3);
  CHECK(std::get<Activation>(by_name["soft"]).kind == Activation::Kind::kSoftsign);
  CHECK(std::get<BatchNorm>(by_name["bn"]).global_statistics);
  CHECK(std::get<Pooling>(by_name["real"]).divisor == Pooling::Divisor::kReal);
  CHECK(std::get<Pooling>(by_name["sum"]).kind == Pooling::Kind::kSum);
  CHECK(std::get<SoftmaxOutput>(by_name["softmax"]).gradient_scale == 0.5);
  CHECK(std::get<SoftmaxOutput>(by_name["softmax"]).per_image);
}

TEST_CASE("dropouts, response norms and spatial transformers are written and read", "[graph][symbol]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId numbers = g.add("numbers", FullyConnected{.outputs = 6}, {data});
  NodeId x = g.add("stn", SpatialTransformer{5, 7}, {data, numbers});
  x = g.add("norm", LocalResponseNorm{.size = 3, .alpha = 0.5, .beta = 0.25, .k = 1}, {x});
  x = g.add("usual", LocalResponseNorm{}, {x});
  x = g.add("drop", Dropout{0.25}, {x});
  x = g.add("fc", FullyConnected{.outputs = 3}, {x});
  g.add("softmax", SoftmaxOutput{}, {x});
  const std::string text = symbol_text(g);
  const Graph read = read_symbol(parse_symbol_file(text).value()).value();
  CHECK(symbol_text(read) == text);
  std::map<std::string, Op> ops;
  for (const Node& node : read.nodes()) ops[node.name] = node.op;
  CHECK(std::get<SpatialTransformer>(ops["stn"]).height == 5);
  CHECK(std::get<SpatialTransformer>(ops["stn"]).width == 7);
  CHECK(std::get<LocalResponseNorm>(ops["norm"]).size == 3);
  CHECK(std::get<LocalResponseNorm>(ops["norm"]).alpha == 0.5);
  CHECK(std::get<LocalResponseNorm>(ops["norm"]).beta == 0.25);
  CHECK(std::get<LocalResponseNorm>(ops["norm"]).k == 1);
  CHECK(std::get<LocalResponseNorm>(ops["usual"]).k == 2);
  CHECK(std::get<Dropout>(ops["drop"]).rate == 0.25);
  std::map<std::string, json> attributes;
  const json nodes = json::parse(text).at("nodes");
  for (const json& node : nodes) attributes[node.at("name")] = node.value("attrs", json());
  CHECK(attributes["usual"] == json::parse(R"({"nsize": "5"})"));
  CHECK(attributes["stn"] == json::parse(R"json({"sampler_type": "bilinear", "target_shape": "(5, 7)",
        "transform_type": "affine"})json"));
}

TEST_CASE("a network's rules for its parameters are attributes of their nodes", "[graph][symbol]") {
  const json nodes =
      json::parse(symbol_text(build_model({.network = "resnet-zscore", .image = {3, 32, 32}}).value())).at("nodes");
  std::map<std::string, json> by_name;
  for (const json& node : nodes) by_name[node.at("name")] = node;
  const auto has = [&](const char* node, const char* key, const char* value) {
    return by_name[node]["attrs"].value(key, "") == value;
  };
  for (const char* fixed : {"level2_block1_proj_weight", "zscore_beta"}) {
    CHECK(has(fixed, "__lr_mult__", "0"));
    CHECK(has(fixed, "__wd_mult__", "0"));
  }
  CHECK(has("fc_bias", "__wd_mult__", "1"));
  CHECK(!by_name["fc_bias"]["attrs"].contains("__lr_mult__"));
  CHECK(has("conv0_bn_moving_var", "__init__", R"(["zero", {}])"));
  CHECK(by_name["conv0_weight"]["attrs"] == by_name["conv0"]["attrs"]);  // MXNet copies those of the node
  const json init = json::parse(by_name["fc_weight"]["attrs"]["__init__"].get<std::string>());
  CHECK(init == json::parse(R"(["xavier", {"rnd_type": "uniform", "factor_type": "in", "magnitude": 1}])"));
}

// A list of more than ten entries is written on several lines.
TEST_CASE("a variable that several nodes read is in the file once, and all heads are listed", "[graph][symbol]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId a = g.add("a", FullyConnected{.outputs = 4, .bias = false}, {data});
  const TensorId weight = g.node(a).inputs[FullyConnected::kWeight];
  const NodeId b = g.add_reader("b", FullyConnected{.outputs = 4, .bias = false}, {g.tensor(Edge{a}), weight});
  g.add_head(g.add("softmax", SoftmaxOutput{}, {b}));
  g.add_head(a);
  const json file = json::parse(symbol_text(g));
  std::vector<std::string> names;
  for (const json& node : file["nodes"]) names.push_back(node["name"]);
  CHECK(names == std::vector<std::string>{"data", "a_weight", "a", "b", "softmax_label", "softmax"});
  CHECK(file["nodes"][3]["inputs"] == json::parse("[[2, 0, 0], [1, 0, 0]]"));
  CHECK(file["arg_nodes"] == json::parse("[0, 1, 4]"));
  CHECK(file["heads"] == json::parse("[[5, 0, 0], [2, 0, 0]]"));
}

TEST_CASE("a concat of eleven branches lists them line by line", "[graph][symbol]") {
  Graph g;
  const NodeId x = g.add("data", Input{}, {});
  const NodeId y = g.add("op", Concat{}, std::vector<NodeId>(11, x));
  const NodeId fc = g.add("fc", FullyConnected{.outputs = 3}, {y});
  g.add("softmax", SoftmaxOutput{}, {fc});
  CHECK_THAT(symbol_text(g), Catch::Contains("\"inputs\": [\n        [0, 0, 0], \n        [0, 0, 0], \n"));
  CHECK_THAT(symbol_text(g), Catch::Contains("        [0, 0, 0]\n      ]\n    }"));
}
