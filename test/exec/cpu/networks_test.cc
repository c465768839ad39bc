#include <catch2/catch.hpp>

#include "base/random.h"
#include "exec/check.h"
#include "graph/models/models.h"
#include "optim/initializer.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

struct Network {
  std::string name;
  Shape image;
  int64_t batch;
  int steps;
};

graph::Graph model(const Network& network) {
  return graph::build_model({.network = network.name, .num_classes = 10, .image = network.image}).value();
}

struct Batches {
  std::vector<float> data, labels;
  Batches(const Network& network, uint64_t seed) {
    RandomStream random(seed, Use::kTest);
    data.resize(static_cast<size_t>(network.batch * element_count(network.image)));
    for (float& x : data) x = static_cast<float>(random.normal());
    for (int64_t i = 0; i < network.batch; i++) labels.push_back(static_cast<float>(random.below(10)));
  }
  [[nodiscard]] Batch view() const { return {data, labels}; }
};

void check_steps(const Network& network, bool winograd) {
  INFO(network.name << (winograd ? " with Winograd" : " direct"));
  const graph::Graph graph = model(network);
  const Options options{
      .batch_size = network.batch, .image = network.image, .threads = 2, .winograd = winograd, .keep_all = true};
  auto executor = make_cpu_backend()->compile(graph, options).value();
  REQUIRE(optim::initialize({}, executor->parameters(), 1));
  for (int step = 1; step <= network.steps; step++) {
    const Batches batch(network, static_cast<uint64_t>(step));
    const CheckReport report = check_against_reference(graph, options, *executor, batch.view()).value();
    CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
  }
}

}  // namespace

// Steps without an update in between: moving statistics go on, everything else begins anew. Each node against the
// reference in float64, from the inputs that the executor itself came to.
TEST_CASE("small networks agree with the reference node by node", "[exec][cpu]") {
  check_steps({"lenet", {1, 28, 28}, 3, 3}, true);
  check_steps({"3conv", {3, 28, 28}, 3, 3}, true);
  check_steps({"resnet-28-small-20", {3, 28, 28}, 2, 3}, true);
  check_steps({"resnet-v1-20", {3, 28, 28}, 2, 1}, true);
  check_steps({"cross-20", {3, 28, 28}, 2, 2}, true);
  check_steps({"resnet-zscore", {3, 32, 32}, 1, 1}, true);
}

TEST_CASE("inception-bn-28-small agrees with the reference node by node", "[exec][cpu]") {
  check_steps({"inception-bn-28-small", {3, 28, 28}, 2, 1}, true);
  check_steps({"inception-bn-28-small@v0.7", {3, 28, 28}, 2, 1}, true);
}

TEST_CASE("networks agree with the reference over several steps, both algorithms", "[exec][cpu][slow]") {
  for (const bool winograd : {false, true}) {
    check_steps({"inception-bn-28-small", {3, 28, 28}, 4, winograd ? 3 : 1}, winograd);
    check_steps({"resnet-28-small-20", {3, 28, 28}, 3, 2}, winograd);
    check_steps({"lenet", {1, 28, 28}, 16, 2}, winograd);
    check_steps({"resnet-zscore", {3, 32, 32}, 2, 1}, winograd);
  }
}
