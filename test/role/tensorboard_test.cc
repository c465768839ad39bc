#include "role/worker/tensorboard.h"

#include <algorithm>
#include <map>
#include <set>

#include "role/runs.h"
#include "role/setup/drawn_network.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::role;
using dtrain::test::must;
using observe::GraphNode;

namespace {

std::map<std::string, GraphNode> drawn_by_name(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--benchmark", "1"});
  const job::Flags parsed = must(job::parse_flags(flags, [](const std::string&) { return std::nullopt; })).flags;
  const Network network = must(build_network(parsed.job));
  std::map<std::string, GraphNode> nodes;
  std::set<std::string> before;
  for (GraphNode& node : drawn_network(network, "cpu(0)")) {
    INFO(node.name);
    for (const std::string& input : node.inputs) CHECK(before.contains(input));  // each node comes after its inputs
    CHECK(node.device == "cpu(0)");
    REQUIRE(before.insert(node.name).second);
    nodes[node.name] = std::move(node);
  }
  return nodes;
}

}  // namespace

TEST_CASE("names of units become groups of TensorBoard's graph", "[role]") {
  CHECK(drawn_name("stage1_unit12_conv1") == "stage1/unit12/conv1");
  CHECK(drawn_name("conv_3a_1x1") == "conv_3a_1x1");
  CHECK(drawn_name("conv1_1") == "conv1_1");
  CHECK(drawn_name("relu1_") == "relu1_");
  CHECK(drawn_name("softmax") == "softmax");
  CHECK(drawn_name("").empty());
  CHECK(drawn_name("a b:0^") == "a_b_0_");
}

TEST_CASE("the drawn network has all nodes, parameters, sizes and attributes", "[role]") {
  const auto nodes = drawn_by_name({"--network", "lenet", "--image-shape", "1,28,28", "--num-classes", "10"});
  const GraphNode& convolution = nodes.at("convolution0");
  CHECK(convolution.op == "Convolution");
  CHECK(convolution.inputs == std::vector<std::string>{"data", "convolution0/weight", "convolution0/bias"});
  CHECK(convolution.shape == std::vector<int64_t>{-1, 20, 24, 24});
  CHECK(std::ranges::find(convolution.attributes, std::pair<std::string, std::string>("kernel", "(5, 5)")) !=
        convolution.attributes.end());
  CHECK(nodes.at("convolution0/weight").op == "Parameter");
  CHECK(nodes.at("convolution0/weight").shape == std::vector<int64_t>{20, 1, 5, 5});
  CHECK(nodes.at("data").inputs.empty());
  CHECK(nodes.at("data").shape == std::vector<int64_t>{-1, 1, 28, 28});
  CHECK(nodes.at("softmax/label").op == "Label");
}

TEST_CASE("networks with units, branches and statistics are drawn", "[role]") {
  const auto resnet = drawn_by_name({"--network", "resnet-20", "--image-shape", "3,28,28", "--num-classes", "10"});
  CHECK(resnet.at("stage1/unit1/bn1/moving_mean").op == "Statistic");
  CHECK(resnet.contains("stage2/unit3/conv2/weight"));
  CHECK(resnet.at("stage1/unit2/_plus1").op == "Add");
  drawn_by_name({"--network", "inception-v3", "--image-shape", "3,299,299", "--num-classes", "1000"});
}

// Each hyperparameter has the same type in every run, because TensorBoard takes the types from one of them.
TEST_CASE("hyperparameters have the values and types of their flags", "[role]") {
  const auto parse = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--network", "lenet", "--data-type", "mnist", "--benchmark", "1"});
    return hyperparameters(must(job::parse_flags(flags, [](const std::string&) { return std::nullopt; })).flags);
  };
  const auto plain = parse({});
  const auto changed = parse({"--lr", "0.25", "--lr-step-epochs", "3", "--random-mirror", "1", "--clip-gradient", "5",
                              "-n", "3", "--batch-size", "64", "--seed", "12", "--lr-factor", "0.5"});
  REQUIRE(plain.size() == changed.size());
  CHECK(plain.size() == 26);
  std::map<std::string, std::variant<bool, double, std::string>> values;
  for (size_t i = 0; i < plain.size(); i++) {
    INFO(plain[i].name);
    CHECK(plain[i].name == changed[i].name);
    CHECK(plain[i].value.index() == changed[i].value.index());
    CHECK_FALSE(plain[i].description.empty());
    values[changed[i].name] = changed[i].value;
  }
  using Value = std::variant<bool, double, std::string>;
  CHECK(values["lr"] == Value(0.25));
  const auto chosen = [](const observe::HyperParameter& parameter) { return parameter.is_chosen; };
  CHECK(std::ranges::count_if(plain, chosen) == 1);
  CHECK(std::ranges::count_if(changed, chosen) == 9);
  CHECK(values["lr-step-epochs"] == Value(std::string("3")));
  CHECK(values["random-mirror"] == Value(true));
  CHECK(values["network"] == Value(std::string("lenet")));
  CHECK(values["num-workers"] == Value(3.0));
}
