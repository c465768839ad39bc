// Symbol files that somebody else made: what is read, and what is refused.
#include <fmt/ranges.h>

#include "graph/models/models.h"
#include "graph/symbol/attribute_reader.h"
#include "graph/symbol/initializer_text.h"
#include "graph/symbol/parse.h"
#include "graph/symbol/read.h"
#include "graph/symbol/write.h"
#include "support/catch.h"

namespace dtrain::graph {
namespace {

using Catch::Contains;

Result<Graph> read(const std::string& text) {
  DT_TRY(SymbolFile file, parse_symbol_file(text));
  return read_symbol(std::move(file));
}

std::string error_of(const std::string& text) {
  const Result<Graph> graph = read(text);
  REQUIRE_FALSE(graph);
  return graph.error().text();
}

// A node of a file. `inputs`: "[0, 0, 0], [1, 0, 0]".
std::string node(const std::string& op, const std::string& name, const std::string& attributes,
                 const std::string& inputs) {
  return fmt::format(R"({{"op": "{}", "name": "{}", "attrs": {{{}}}, "inputs": [{}]}})", op, name, attributes, inputs);
}

std::string variable(const std::string& name, const std::string& attributes = "") {
  return node("null", name, attributes, "");
}

std::string file(const std::vector<std::string>& nodes, const std::string& variables, const std::string& heads,
                 int version = 10901) {
  return fmt::format(
      R"({{"nodes": [{}], "arg_nodes": [{}], "heads": [{}], "attrs": {{"mxnet_version": ["int", {}]}}}})",
      fmt::join(nodes, ", "), variables, heads, version);
}

// data, a fully connected layer of these attributes, and a loss.
std::string small(const std::string& attributes, const std::string& weight_attributes = "") {
  return file({variable("data"), variable("w", weight_attributes),
               node("FullyConnected", "fc", R"("no_bias": "True", )" + attributes, "[0, 0, 0], [1, 0, 0]"),
               variable("y"), node("SoftmaxOutput", "loss", "", "[2, 0, 0], [3, 0, 0]")},
              "0, 1, 3", "[4, 0, 0]");
}

const Variable& variable_of(const Graph& graph, std::string_view name) {
  for (const Variable& variable : graph.variables()) {
    if (variable.name == name) return variable;
  }
  FAIL("no variable is called " << name);
  throw CheckFailed("");
}

}  // namespace

TEST_CASE("what a variable is follows from the argument that reads it", "[graph][symbol]") {
  // The names say the opposite.
  const Graph graph = read(file({variable("conv_weight"), variable("data"), variable("a_label"),
                                 node("Convolution", "c", R"json("kernel": "(1, 1)", "num_filter": "4")json",
                                      "[0, 0, 0], [1, 0, 0], [2, 0, 0]"),
                                 variable("moving_mean"), variable("bias"), variable("s_gamma"), variable("s_beta"),
                                 node("BatchNorm", "b", "", "[3, 0, 0], [4, 0, 0], [5, 0, 0], [6, 0, 1], [7, 0, 1]"),
                                 node("Flatten", "f", "", "[8, 0, 0]"), variable("x_weight"),
                                 node("SoftmaxOutput", "loss", "", "[9, 0, 0], [10, 0, 0]")},
                                "0, 1, 2, 4, 5, 6, 7, 10", "[11, 0, 0]"))
                          .value();
  CHECK(variable_of(graph, "conv_weight").role == Variable::Role::kInput);
  CHECK(variable_of(graph, "data").kind == ParameterKind::kWeight);
  CHECK(variable_of(graph, "a_label").kind == ParameterKind::kBias);
  CHECK(variable_of(graph, "moving_mean").kind == ParameterKind::kGamma);
  CHECK(variable_of(graph, "s_gamma").role == Variable::Role::kStatistic);
  CHECK(variable_of(graph, "x_weight").role == Variable::Role::kLabel);
  const Shapes shapes = infer_shapes(graph, {3, 2, 2}).value();
  CHECK(shapes.heads[0].outputs == 16);
  CHECK(shapes.parameters.size() == 4);
  CHECK(shapes.statistics.size() == 2);
}

TEST_CASE("multipliers and initial values of variables are rules", "[graph][symbol]") {
  const std::string hidden = R"("__lr_mult__": "0.5", "__wd_mult__": "0", "__init__": "[\"normal\", {\"sigma\": 2}]")";
  const ParameterRule rule = variable_of(read(small(R"("num_hidden": "3")", hidden)).value(), "w").rule;
  CHECK(rule.learning_rate == 0.5);
  CHECK(rule.weight_decay == 0.0);
  REQUIRE(rule.initial);
  CHECK(rule.initial->kind == InitializerSpec::Kind::kNormal);
  CHECK(rule.initial->magnitude == 2);
  const std::string by_name = R"("__init__": "ones")";  // as gluon writes it
  CHECK(variable_of(read(small(R"("num_hidden": "3")", by_name)).value(), "w").rule.initial->magnitude == 1);
  CHECK_THAT(error_of(small(R"("num_hidden": "3")", R"("__lr_mult__": "much")")), Contains("'w' is 'much'"));
  const auto initial = [](const std::string& text) {
    return *variable_of(read(small(R"("num_hidden": "3")", R"("__init__": ")" + text + "\"")).value(), "w")
                .rule.initial;
  };
  const InitializerSpec msra = initial(R"([\"msraprelu\", {\"factor_type\": \"in\", \"slope\": 1}])");
  CHECK((msra.kind == InitializerSpec::Kind::kXavier && msra.gaussian && msra.magnitude == 1));
  CHECK(msra.factor == InitializerSpec::Factor::kIn);
  const InitializerSpec orthogonal = initial(R"([\"orthogonal\", {\"scale\": 2, \"rand_type\": \"normal\"}])");
  CHECK((orthogonal.kind == InitializerSpec::Kind::kOrthogonal && orthogonal.gaussian && orthogonal.magnitude == 2));
  CHECK(initial("bilinear").kind == InitializerSpec::Kind::kBilinear);
  CHECK(initializer_text(initial("bilinear")) == R"(["bilinear", {}])");
  CHECK_THAT(error_of(small(R"("num_hidden": "3")", R"("__init__": "[\"magic\", {}]")")), Contains("reading 'w'"));
}

TEST_CASE("a shared weight and several heads are read", "[graph][symbol]") {
  const std::string text =
      file({variable("data"), variable("w"),
            node("FullyConnected", "a", R"("no_bias": "True", "num_hidden": "4")", "[0, 0, 0], [1, 0, 0]"),
            node("FullyConnected", "b", R"("no_bias": "True", "num_hidden": "4")", "[2, 0, 0], [1, 0, 0]"),
            variable("y"), node("SoftmaxOutput", "one", "", "[2, 0, 0], [4, 0, 0]"),
            node("SoftmaxOutput", "two", "", "[3, 0, 0], [4, 0, 0]")},
           "0, 1, 4", "[5, 0, 0], [6, 0, 0]");
  const Graph graph = read(text).value();
  CHECK(graph.heads().size() == 2);
  const Shapes shapes = infer_shapes(graph, {4, 1, 1}).value();
  REQUIRE(shapes.parameters.size() == 1);
  CHECK(shapes.parameters[0].uses.size() == 2);
  const SymbolFile written = symbol_of(graph);
  CHECK(written == parse_symbol_file(symbol_text(graph)).value());
}

TEST_CASE("a symbol file may have several inputs, in the order in which they are read", "[graph]") {
  const Graph graph = read_symbol(parse_symbol_file(file({variable("data"), variable("more"),
                                                          node("elemwise_add", "sum", "", "[1, 0, 0], [0, 0, 0]")},
                                                         "0, 1", "[2, 0, 0]"))
                                      .value())
                          .value();
  const std::vector<VariableId> inputs = graph.variables(Variable::Role::kInput);
  REQUIRE(inputs.size() == 2);
  CHECK(graph.variables()[inputs[0]].name == "more");
  CHECK(graph.variables()[inputs[1]].name == "data");
}

TEST_CASE("operators and connections that dtrain does not have are named", "[graph][symbol]") {
  const std::string fc = node("FullyConnected", "fc", R"("num_hidden": "3")", "[0, 0, 0], [1, 0, 0], [2, 0, 0]");
  const auto with = [&](const std::string& last) {
    return error_of(file({variable("data"), variable("w"), variable("b"), fc, last}, "0, 1, 2", "[4, 0, 0]"));
  };
  CHECK_THAT(with(node("LeakyReLU", "leaky", "", "[3, 0, 0]")),
             Contains("'LeakyReLU' does not exist") && Contains("Convolution") && Contains("node 'leaky'"));
  CHECK_THAT(with(node("Activation", "a", R"("act_type": "swish")", "[3, 0, 0]")),
             Contains("swish") && Contains("relu"));
  CHECK_THAT(with(node("Flatten", "f", R"json("shape": "(1,)")json", "[3, 0, 0]")), Contains("'shape' is unknown"));
  CHECK_THAT(with(node("Flatten", "f", "", "[3, 1, 0]")), Contains("output 1 of 'fc'") && Contains("node 'f'"));
  CHECK_THAT(with(node("Flatten", "f", "", "[3, 0, 0], [0, 0, 0]")),
             Contains("has 2 inputs, but the operator takes 1"));
  CHECK_THAT(with(node("Flatten", "f", "", "[1, 0, 0]")), Contains("'w' as data") && Contains("a learned tensor"));
  CHECK_THAT(with(node("FullyConnected", "g", R"("num_hidden": "3", "no_bias": "True")", "[0, 0, 0], [3, 0, 0]")),
             Contains("the node's weight is computed by the node 'fc'"));
  CHECK_THAT(with(node("FullyConnected", "g", R"("num_hidden": "3")", "[0, 0, 0], [2, 0, 0], [1, 0, 0]")),
             Contains("'b' as its weight"));
  CHECK_THAT(error_of(file({variable("data"), node("Flatten", "f", "", "[0, 0, 0]")}, "0", "[0, 0, 0]")),
             Contains("the value of 'data'"));
}

TEST_CASE("dropouts, norms and transformers that dtrain does not have are refused", "[graph][symbol]") {
  const auto after_data = [](const std::string& op, const std::string& attributes) {
    const std::string flat = node("Flatten", "flat", "", "[1, 0, 0]");
    const std::string fc =
        node("FullyConnected", "fc", R"("num_hidden": "3", "no_bias": "True")", "[2, 0, 0], [3, 0, 0]");
    return file({variable("data"), node(op, "op", attributes, "[0, 0, 0]"), flat, variable("w"), fc, variable("y"),
                 node("SoftmaxOutput", "loss", "", "[4, 0, 0], [5, 0, 0]")},
                "0, 3, 5", "[6, 0, 0]");
  };
  const auto refused = [&](const std::string& op, const std::string& attributes) {
    return error_of(after_data(op, attributes));
  };
  CHECK_THAT(refused("Dropout", R"("p": "1")"), Contains("'p' must be") && Contains("node 'op'"));
  CHECK_THAT(refused("Dropout", R"("p": "-0.1")"), Contains("'p' must be"));
  CHECK_THAT(refused("Dropout", R"("mode": "always")"), Contains("always"));
  CHECK_THAT(refused("Dropout", R"json("axes": "(1, 2)")json"), Contains("(1, 2)"));
  CHECK_THAT(refused("LRN", R"("nsize": "4")"), Contains("'nsize' must be odd"));
  CHECK_THAT(refused("LRN", ""), Contains("nsize"));
  CHECK_THAT(refused("LRN", R"("nsize": "5", "knorm": "0")"), Contains("'knorm' must be"));
  CHECK_THAT(refused("Cast", R"("dtype": "int8")"), Contains("int8"));
  CHECK_THAT(refused("SpatialTransformer", R"json("target_shape": "(28, 28)", "transform_type": "affine",
      "sampler_type": "bilinear")json"),
             Contains("has 1 inputs, but the operator takes 2"));
  CHECK_THAT(refused("SpatialTransformer", R"json("target_shape": "(0, 0)", "transform_type": "affine",
      "sampler_type": "bilinear")json"),
             Contains("target_shape"));
  CHECK(read(after_data("Cast", R"("dtype": "float16")")));
  CHECK(read(after_data("Dropout", R"json("p": "0.2", "mode": "training", "axes": "()")json")));
  CHECK(read(after_data("LRN", R"("nsize": "5")")));
}

TEST_CASE("every variable has a name of its own", "[graph][symbol]") {
  std::string text = small(R"("num_hidden": "3")");
  const size_t place = text.find(R"("name": "w")");
  CHECK_THAT(error_of(std::string(text).replace(place, 11, R"("name": "data")")),
             Contains("two variables are called 'data'"));
  CHECK_THAT(error_of(text.replace(place, 11, R"("name": "")")), Contains("'name' is empty"));
}

// As in files of converted models, and of Gluon's whose blocks share an activation.
TEST_CASE("operators may have the names of other operators and of variables", "[graph][symbol]") {
  const std::string text =
      file({variable("data"), variable("w"),
            node("FullyConnected", "x", R"("no_bias": "True", "num_hidden": "3")", "[0, 0, 0], [1, 0, 0]"),
            node("Activation", "x", R"("act_type": "relu")", "[2, 0, 0]"),
            node("Activation", "x_2", R"("act_type": "tanh")", "[3, 0, 0]"),
            node("Activation", "x", R"("act_type": "relu")", "[4, 0, 0]"),
            node("Activation", "data", R"("act_type": "relu")", "[5, 0, 0]"),
            node("Activation", "w", R"("act_type": "relu")", "[6, 0, 0]"), variable("y"),
            node("SoftmaxOutput", "loss", "", "[7, 0, 0], [8, 0, 0]")},
           "0, 1, 8", "[9, 0, 0]");
  const Graph graph = read(text).value();
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  CHECK(names == std::vector<std::string>{"data", "x", "x_3", "x_2", "x_4", "data_2", "w", "loss"});
  // The file that is written has the names that were read.
  const SymbolFile before = parse_symbol_file(text).value(), after = parse_symbol_file(symbol_text(graph)).value();
  const auto names_of = [](const SymbolFile& file) {
    std::vector<std::string> all;
    for (const FileNode& node : file.nodes) all.push_back(node.name);
    return all;
  };
  CHECK(names_of(after) == names_of(before));
}

TEST_CASE("attributes have MXNet's ranges, and larger values are refused", "[graph][symbol]") {
  const auto fc = [](const std::string& attributes) { return error_of(small(attributes)); };
  CHECK_THAT(fc(R"("num_hidden": "8.0")"), Contains("'8.0'"));
  CHECK_THAT(fc(R"("num_hidden": "-1")"), Contains("'-1'"));
  CHECK_THAT(fc(R"("num_hidden": "1000000000000000000")"), Contains("num_hidden"));
  CHECK_THAT(fc(R"("flatten": "False", "num_hidden": "3")"), Contains("flatten"));
  CHECK_THAT(fc(""
                R"("unit": "3")"),
             Contains("num_hidden"));
  CHECK(whole_number(" 8 ") == 8);
  CHECK_FALSE(whole_number("8x"));
  CHECK_FALSE(real_number("nan"));
  CHECK(real_number("2e-05") == 2e-5);
  CHECK(truth_value("true") == true);
  CHECK_FALSE(truth_value("yes"));
  CHECK(dimensions("(3L, 3L)") == std::vector<int64_t>{3, 3});
  CHECK(dimensions("(3,)") == std::vector<int64_t>{3});
  CHECK_FALSE(dimensions("(3"));
}

TEST_CASE("tensors whose sizes overflow are refused by their node", "[graph][symbol]") {
  std::vector<std::string> nodes = {variable("data")};
  std::string variables = "0";
  for (size_t i = 0; i < 4; i++) {
    const size_t w = nodes.size();
    variables += fmt::format(", {}", w);
    nodes.push_back(variable(fmt::format("w{}", i)));
    nodes.push_back(node(
        "Convolution", fmt::format("c{}", i),
        R"json("no_bias": "True", "kernel": "(65536, 65536)", "pad": "(65535, 65535)", "num_filter": "16777216")json",
        fmt::format("[{}, 0, 0], [{}, 0, 0]", w - 1, w)));
  }
  const size_t last = nodes.size() - 1;
  nodes.push_back(node("Flatten", "flat", "", fmt::format("[{}, 0, 0]", last)));
  nodes.push_back(variable("y"));
  nodes.push_back(node("SoftmaxOutput", "loss", "", fmt::format("[{}, 0, 0], [{}, 0, 0]", last + 1, last + 2)));
  const Graph graph =
      read(file(nodes, variables + fmt::format(", {}", last + 2), fmt::format("[{}, 0, 0]", last + 3))).value();
  const Result<Shapes> shapes = infer_shapes(graph, {3, 224, 224});
  REQUIRE_FALSE(shapes);
  CHECK_THAT(shapes.error().text(), Contains("node 'c0'") && Contains("elements"));
}

// As MXNet 1.9.1 brings them into its own form (docs/formats.md, "Symbol files").
TEST_CASE("files of MXNet 0.7 come out in the form of 1.9.1", "[graph][symbol]") {
  const std::string old = R"json({"nodes": [
    {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "c_weight", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "c_bias", "inputs": [], "backward_source_id": -1},
    {"op": "Convolution", "param": {"kernel": "(3,3)",
  "num_filter" : "8",
  "workspace" : "512"
},
    "name" : "c", "inputs" : [ [ 0, 0 ], [ 1, 0 ], [ 2, 0 ] ], "backward_source_id" : -1, "attr" : {
  "weight_wd_mult" : "3"
}
},
    {"op": "null", "param": {}, "name": "b_gamma", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "b_beta", "inputs": [], "backward_source_id": -1},
    {"op": "BatchNorm", "param": {"eps": "0.001"}, "name": "b", "inputs": [[3, 0], [4, 0], [5, 0]]},
    {"op": "Pooling", "param": {"kernel": "(3,3)", "pool_type": "max", "stride": "(2,2)"}, "name": "p",
     "inputs": [[6, 0]]},
    {"op": "_Plus", "param": {}, "name": "_plus0", "inputs": [[7, 0], [7, 0]]},
    {"op": "Flatten", "param": {}, "name": "f", "inputs": [[8, 0]]},
    {"op": "null", "param": {}, "name": "softmax_label", "inputs": []},
    {"op": "Softmax", "param": {}, "name": "softmax", "inputs": [[9, 0], [10, 0]]}],
    "arg_nodes": [0, 1, 2, 4, 5, 10], "heads": [[11, 0]]})json";
  const Graph graph = read(old).value();
  CHECK(variable_of(graph, "b_moving_mean").role == Variable::Role::kStatistic);
  CHECK(variable_of(graph, "c_weight").rule.weight_decay == 3.0);
  const std::string text = symbol_text(graph);
  CHECK_THAT(text, Contains(R"("op": "elemwise_add")") && Contains(R"("op": "SoftmaxOutput")"));
  CHECK_THAT(text, Contains("\"pooling_convention\": \"full\"") && Contains("\"kernel\": \"(3,3)\""));
  CHECK_THAT(text, Contains(R"("mxnet_version": ["int", 10901])"));
  // The pooling rounds up: (10 - 3) / 2 + 1 is 4.5.
  CHECK((infer_shapes(graph, {3, 12, 12}).value().heads[0].outputs) == 8 * 5 * 5);
}

TEST_CASE("hostile texts end with one error", "[graph][symbol]") {
  const auto refused = [](const std::string& text) {
    INFO(text.substr(0, 500));
    const Result<SymbolFile> parsed = parse_symbol_file(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Code::kData);
    return parsed.error().text();
  };
  CHECK_THAT(refused(""), Contains("line 1"));
  CHECK_THAT(refused("PK\x03\x04"), Contains("line 1"));
  CHECK_THAT(refused(std::string(17 << 20, ' ')), Contains("at most 16777216"));
  refused(std::string(1 << 20, '['));
  refused(R"({"nodes": 3})");
  const std::string good = small(R"("num_hidden": "3")");
  REQUIRE(parse_symbol_file(good));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t place = text.find(from);
    REQUIRE(place != std::string::npos);
    return refused(text.replace(place, from.size(), to));
  };
  CHECK_THAT(changed("[0, 0, 0], [1, 0, 0]", "[2, 0, 0], [1, 0, 0]"), Contains("'fc'") && Contains("node 2"));
  CHECK_THAT(changed("[0, 0, 0], [1, 0, 0]", "[4, 0, 0], [1, 0, 0]"), Contains("node 4"));
  changed("[0, 0, 0], [1, 0, 0]", "[-1, 0, 0], [1, 0, 0]");
  changed("[0, 0, 0], [1, 0, 0]", "[0.5, 0, 0], [1, 0, 0]");
  changed("[0, 0, 0], [1, 0, 0]", "[99999999999999999999, 0, 0], [1, 0, 0]");
  changed(R"("name": "w")", "\"name\": \"w\xff\"");
  changed(R"("name": "w")", R"("name": "w", "name": "v")");
  changed(R"("num_hidden": "3")", R"("num_hidden": 3)");
  CHECK_THAT(changed("\"arg_nodes\": [0, 1, 3]", "\"arg_nodes\": [0, 1]"), Contains("arg_nodes"));
  CHECK_THAT(changed("\"heads\": [[4, 0, 0]]", "\"heads\": [[5, 0, 0]]"), Contains("node 5"));
  for (size_t size = 0; size < good.size(); size++) refused(good.substr(0, size));
}

TEST_CASE("a changed byte gives a graph or an error", "[graph][symbol]") {
  const std::string good = small(R"("num_hidden": "3")");
  for (size_t i = 0; i < good.size(); i++) {
    for (const char flip : {1, 2, 4, 16, 64, -128}) {
      std::string text = good;
      text[i] = static_cast<char>(text[i] ^ flip);
      const Result<Graph> graph = read(text);
      if (graph && graph->heads().size() == 1) CHECK_FALSE(symbol_text(*graph).empty());
    }
  }
}

TEST_CASE("more nodes, inputs and attributes than the limits are refused while they are read", "[graph][symbol]") {
  const std::string good = small(R"("num_hidden": "3")");
  CHECK_THAT(parse_symbol_file(good, {.nodes = 4}).error().text(), Contains("4"));
  CHECK_THAT(parse_symbol_file(good, {.inputs = 1}).error().text(), Contains("1"));
  CHECK_THAT(parse_symbol_file(good, {.attributes = 1}).error().text(), Contains("1"));
  // All nodes together may have four attributes for each node of the limit.
  const auto node = [](const char* name) { return variable(name, R"("a": "", "b": "", "c": "", "d": "", "e": "")"); };
  const std::string many = file({node("v"), node("w")}, "0, 1", "[0, 0, 0]");
  CHECK_THAT(parse_symbol_file(many, {.nodes = 2}).error().text(), Contains("more than 8 attributes"));
  CHECK(parse_symbol_file(many, {.nodes = 3}));
  CHECK_THAT(parse_symbol_file(good, {.text = 3}).error().text(), Contains("3"));
}

// A copy of a text of this length would have another address.
TEST_CASE("the texts of a file become those of the graph without a copy", "[graph][symbol]") {
  for (const int version : {800, 10901}) {
    const std::string text =
        file({variable("data", R"("__hidden__": "a text that no small string has room for")"),
              node("Flatten", "f", R"("__hidden__": "another text of more than a few bytes")", "[0, 0, 0]"),
              variable("y"), node("SoftmaxOutput", "loss", "", "[1, 0, 0], [2, 0, 0]")},
             "0, 2", "[3, 0, 0]", version);
    SymbolFile parsed = parse_symbol_file(text).value();
    const char* of_data = parsed.nodes[0].attributes.find("__hidden__")->second.data();
    const char* of_node = parsed.nodes[1].attributes.find("__hidden__")->second.data();
    const Graph graph = read_symbol(std::move(parsed)).value();
    CHECK(variable_of(graph, "data").attributes->find("__hidden__")->second.data() == of_data);
    CHECK(graph.node(1).spelling.attributes->find("__hidden__")->second.data() == of_node);
  }
}

TEST_CASE("attributes are sorted by their keys, which differ", "[graph][symbol]") {
  Attributes attributes;
  for (const char* key : {"d", "b", "a", "c", "b"}) attributes[key] += key;
  attributes.try_emplace("a", "other");
  attributes.insert({"e", "new"});
  std::string all;
  for (const auto& [key, text] : attributes) all += key + "=" + text + " ";
  CHECK(all == "a=a b=bb c=c d=d e=new ");
  CHECK((attributes.contains("c") && !attributes.contains("") && !attributes.contains("f")));
  attributes.remove_if([](const auto& attribute) { return attribute.second.size() == 1; });
  CHECK((attributes.size() == 2 && attributes.find("b")->second == "bb" && attributes.begin()->first == "b"));
}

TEST_CASE("a chain of sums of equal inputs is read in time in proportion to its length", "[graph][symbol]") {
  constexpr size_t kNodes = 20000;  // 2^20000 paths
  std::vector<std::string> nodes = {variable("data")};
  for (size_t i = 0; i < kNodes; i++) {
    nodes.push_back(node("elemwise_add", fmt::format("s{}", i), "", fmt::format("[{}, 0, 0], [{}, 0, 0]", i, i)));
  }
  nodes.push_back(node("Flatten", "f", "", fmt::format("[{}, 0, 0]", kNodes)));
  nodes.push_back(variable("y"));
  nodes.push_back(node("SoftmaxOutput", "l", "", fmt::format("[{}, 0, 0], [{}, 0, 0]", kNodes + 1, kNodes + 2)));
  const Graph graph =
      read(file(nodes, fmt::format("0, {}", kNodes + 2), fmt::format("[{}, 0, 0]", kNodes + 3))).value();
  CHECK((infer_shapes(graph, {1, 2, 2}).value().heads[0].outputs) == 4);
  CHECK(symbol_of(graph).nodes.size() == kNodes + 4);
}

}  // namespace dtrain::graph
