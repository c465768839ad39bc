#include "train/fill_weights.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::train;

namespace {

// A network with two parameters and one statistic, all values 0.
struct SmallNet {
  std::vector<float> weight = std::vector<float>(6), bias = std::vector<float>(2), mean = std::vector<float>(2);
  ParameterView view{
      .parameters =
          {{.name = "fc_weight", .kind = ParameterKind::kWeight, .shape = {2, 3}, .weight = weight, .gradient = {}},
           {.name = "fc_bias", .kind = ParameterKind::kBias, .shape = {2}, .weight = bias, .gradient = {}}},
      .statistics = {{.name = "bn_mean", .kind = ParameterKind::kOther, .shape = {2}, .weight = mean, .gradient = {}}}};
};

// It reads "data" and "softmax_label".
graph::Graph small_graph() {
  graph::Graph graph;
  const graph::NodeId data = graph.add("data", graph::Input{}, {});
  graph.add("softmax", graph::SoftmaxOutput{}, {graph.add("fc", graph::FullyConnected{2}, {data})});
  return graph;
}

NamedArray array_of(std::string name, Shape shape) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)), 1);
  return {std::move(name), std::move(shape), std::move(values)};
}

}  // namespace

TEST_CASE("a checkpoint's arrays fill the network's, with or without prefixes", "[train]") {
  Checkpoint with;
  with.parameters = {array_of("fc_bias", {2}), array_of("fc_weight", {2, 3})};
  with.statistics = {array_of("bn_mean", {2})};
  Checkpoint without;
  without.without_prefix = {array_of("bn_mean", {2}), array_of("fc_weight", {2, 3}), array_of("fc_bias", {2})};
  // Some programs save the arrays that the network was fed with, too.
  with.parameters.push_back(array_of("data", {1, 3}));
  without.without_prefix.push_back(array_of("softmax_label", {1}));
  for (const Checkpoint* checkpoint : {&with, &without}) {
    SmallNet net;
    REQUIRE(fill_weights(*checkpoint, small_graph(), net.view));
    CHECK(net.weight == std::vector<float>(6, 1));
    CHECK(net.bias == std::vector<float>(2, 1));
    CHECK(net.mean == std::vector<float>(2, 1));
  }
}

TEST_CASE("everything that does not fit in a checkpoint is listed in one error", "[train]") {
  Checkpoint checkpoint;
  checkpoint.parameters = {array_of("fc_weight", {3, 2}), array_of("fc_weight", {2, 3}), array_of("other", {1})};
  checkpoint.without_prefix = {array_of("bn_var", {2})};
  SmallNet net;
  const auto filled = fill_weights(checkpoint, small_graph(), net.view);
  REQUIRE_FALSE(filled);
  CHECK(filled.error().code == Code::kData);
  CHECK(filled.error().message ==
        "the file is not a checkpoint of this network; "
        "arrays that are missing in the file: 'fc_bias' (2,), 'bn_mean' (2,); "
        "arrays that are not in the network: 'bn_var' (2,), 'other' (1,); "
        "arrays with a different shape: 'fc_weight' has the shape (3, 2), but (2, 3) in the network; "
        "arrays that the file has twice: 'fc_weight'");
  CHECK(net.weight == std::vector<float>(6, 0));
}

TEST_CASE("a parameter under the prefix of a statistic does not fit", "[train]") {
  Checkpoint checkpoint;
  checkpoint.parameters = {array_of("fc_weight", {2, 3}), array_of("fc_bias", {2}), array_of("bn_mean", {2})};
  SmallNet net;
  CHECK_FALSE(fill_weights(checkpoint, small_graph(), net.view));
}

TEST_CASE("of many arrays that do not fit, twenty are named and the others counted", "[train]") {
  Checkpoint checkpoint;
  checkpoint.parameters = {array_of("fc_weight", {2, 3}), array_of("fc_bias", {2})};
  checkpoint.statistics = {array_of("bn_mean", {2})};
  for (int i = 10; i < 40; i++) checkpoint.parameters.push_back(array_of(fmt::format("extra{}", i), {1}));
  SmallNet net;
  const std::string message = fill_weights(checkpoint, small_graph(), net.view).error().message;
  CHECK_THAT(message, Catch::Contains("'extra29' (1,) and 10 more") && !Catch::Contains("extra30"));
}
