
#include <algorithm>

#include "exec/check.h"
#include "exec/norm.h"
#include "graph/models/models.h"
#include "optim/initializer.h"
#include "steps.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

void check_steps(const test::Network& network, int steps, bool winograd) {
  INFO(network.name << (winograd ? " with Winograd" : " direct"));
  const graph::Graph graph = test::model(network);
  const Options options{.batch_size = network.batch,
                        .inputs = {{.shape = network.image}},
                        .threads = 2,
                        .winograd = winograd,
                        .keep_all = true};
  auto executor = make_cpu_backend()->compile(graph, options).value();
  REQUIRE(optim::initialize({}, executor->parameters(), 1));
  for (int step = 1; step <= steps; step++) {
    const test::HostBatch batch = test::random_batch(network, static_cast<uint64_t>(step));
    const CheckReport report = check_against_reference(graph, options, *executor, batch.view()).value();
    CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
  }
}

}  // namespace

// Compares all results of a step of the program that trains, with fused nodes and shared memory, with those of the
// plain loops. Each step begins with the reference's weights: otherwise a ReLU or a maximum that rounding decides
// differently would make the difference grow from step to step.
void check_whole_training(const test::Network& network, int steps, double tolerance) {
  INFO(network.name << " on images of " << to_string(network.image));
  const graph::Graph graph = test::model(network);
  const Options options{.batch_size = network.batch, .inputs = {{.shape = network.image}}, .threads = 2};
  const auto truth = make_reference_backend()->compile(graph, options).value();
  const auto tested = make_cpu_backend()->compile(graph, options).value();
  REQUIRE(optim::initialize({}, truth->parameters(), 1));
  for (int step = 1; step <= steps; step++) {
    INFO("step " << step);
    const test::HostBatch batch = test::random_batch(network, static_cast<uint64_t>(step));
    test::copy_weights(truth->parameters(), tested->parameters());
    const test::Step expected = test::run_step(*truth, batch.view()).value();
    const test::Step found = test::run_step(*tested, batch.view()).value();
    const test::Difference difference = test::largest_difference(expected, found, test::gradient_floor(expected));
    INFO(difference.tensor);
    CHECK(difference.error <= tolerance);
    test::descend(truth->parameters(), 0.01F);
  }
}

// The batch norms take over the statistics of one batch completely. With the initial ones, 0 and 1, the numbers of a
// deep network grow until the probabilities are 0 and 1, whatever the layers before do.
void check_whole_inference(const test::Network& network, double tolerance) {
  INFO(network.name << " on images of " << to_string(network.image));
  const graph::Graph graph =
      graph::build_model(
          {.network = network.name, .num_classes = test::kNetworkClasses, .image = network.image, .bn_momentum = 0})
          .value();
  Options options{.batch_size = network.batch, .inputs = {{.shape = network.image}}, .threads = 2};
  const auto trained = make_cpu_backend()->compile(graph, options).value();
  REQUIRE(optim::initialize({}, trained->parameters(), 1));
  const test::HostBatch batch = test::random_batch(network, 1);
  REQUIRE(trained->forward(batch.view(), no_wait));
  options.purpose = Options::Purpose::kInference;
  std::vector<std::vector<float>> probabilities;
  for (const auto& backend : {make_reference_backend(), make_cpu_backend()}) {
    const auto executor = backend->compile(graph, options).value();
    test::copy_weights(trained->parameters(), executor->parameters());
    REQUIRE(executor->forward(batch.view(), no_wait));
    probabilities.emplace_back(executor->result(0).begin(), executor->result(0).end());
  }
  const std::vector<double> truth(probabilities[0].begin(), probabilities[0].end());
  CHECK(*std::max_element(truth.begin(), truth.end()) < 0.9999);
  CHECK(normalised_error(probabilities[1], truth) <= tolerance);
}

// Steps without an update in between: moving statistics carry on, everything else starts again. Each node is compared
// with the reference in float64, from the inputs that the executor itself computed.
TEST_CASE("small networks agree with the reference node by node", "[exec][cpu]") {
  check_steps({"lenet", {1, 28, 28}, 3}, 3, true);
  check_steps({"3conv", {3, 28, 28}, 3}, 3, true);
  check_steps({"resnet-28-small-20", {3, 28, 28}, 2}, 3, true);
  check_steps({"resnet-v1-20", {3, 28, 28}, 2}, 1, true);
  check_steps({"cross-20", {3, 28, 28}, 2}, 2, true);
  check_steps({"lenet-stn", {1, 28, 28}, 3}, 2, true);
  check_steps({"resnet-zscore", {3, 32, 32}, 1}, 1, true);
}

TEST_CASE("inception-bn-28-small agrees with the reference node by node", "[exec][cpu]") {
  check_steps({"inception-bn-28-small", {3, 28, 28}, 2}, 1, true);
  check_steps({"inception-bn-28-small@v0.7", {3, 28, 28}, 2}, 1, true);
}

// On images of the smallest useful size, because the reference computes with plain loops.
TEST_CASE("large networks agree with the reference node by node", "[exec][cpu][slow]") {
  for (const char* name : {"alexnet", "alexnet@v0.7"}) check_steps({name, {3, 67, 67}, 2}, 1, true);
  for (const char* name : {"vgg-11", "vgg-19"}) check_steps({name, {3, 32, 32}, 2}, 1, true);
  for (const char* name : {"resnext-20", "resnet-v1-50"}) check_steps({name, {3, 32, 32}, 2}, 1, true);
  check_steps({"googlenet", {3, 64, 64}, 2}, 1, true);
}

TEST_CASE("networks agree with the reference over several steps, both algorithms", "[exec][cpu][slow]") {
  for (const bool winograd : {false, true}) {
    check_steps({"inception-bn-28-small", {3, 28, 28}, 4}, winograd ? 3 : 1, winograd);
    check_steps({"resnet-28-small-20", {3, 28, 28}, 3}, 2, winograd);
    check_steps({"lenet", {1, 28, 28}, 16}, 2, winograd);
    check_steps({"resnet-zscore", {3, 32, 32}, 2}, 1, winograd);
  }
}

// LeNet has no sign or maximum that rounding decides differently. In a deep network with such a small batch a few of
// them change one layer's gradient by some hundredths (0.02 seen). A wrong computation changes it by much more.
constexpr double kDeepTraining = 0.05;
constexpr double kDeepInference = 1e-3;  // 1.2e-4 seen, in 50 layers

TEST_CASE("the fused program trains small networks as the reference does", "[exec][cpu]") {
  check_whole_training({"lenet", {1, 28, 28}, 4}, 3, 1e-4);
  check_whole_training({"resnet-v1-20", {3, 28, 28}, 2}, 1, kDeepTraining);
  check_whole_training({"inception-bn-28-small", {3, 28, 28}, 2}, 1, kDeepTraining);
  check_whole_training({"resnet-50", {3, 33, 33}, 2}, 1, kDeepTraining);  // bottlenecks, and the stem for large images
}

TEST_CASE("the fused program classifies with small networks as the reference does", "[exec][cpu]") {
  check_whole_inference({"lenet", {1, 28, 28}, 4}, 1e-5);
  check_whole_inference({"resnet-v1-20", {3, 28, 28}, 2}, kDeepInference);
  check_whole_inference({"inception-bn-28-small", {3, 28, 28}, 2}, kDeepInference);
  check_whole_inference({"resnet-50", {3, 33, 33}, 2}, kDeepInference);
}

TEST_CASE("the fused program agrees with the reference in all families of small networks", "[exec][cpu][slow]") {
  for (const char* network : {"3conv", "resnet-20", "resnet-28-small-20", "cross-20"}) {
    check_whole_training({network, {3, 28, 28}, 2}, 1, kDeepTraining);
    check_whole_inference({network, {3, 28, 28}, 2}, kDeepInference);
  }
}

// In 164 layers the rounding errors add up to 0.07 of the first layers' gradients, with direct convolutions as with
// Winograd's. Each node is therefore compared too, from the inputs that the executor itself computed.
TEST_CASE("a network of 164 layers agrees with the reference as a whole and node by node", "[exec][cpu][slow]") {
  check_steps({"resnet-164", {3, 28, 28}, 2}, 1, true);
  check_whole_training({"resnet-164", {3, 28, 28}, 2}, 1, 0.15);
  check_whole_inference({"resnet-164", {3, 28, 28}, 2}, kDeepInference);
}

TEST_CASE("the fused program agrees with the reference on images of 224 pixels", "[exec][cpu][slow]") {
  for (const char* network : {"resnet-50", "resnet-v1-50", "inception-bn"}) {
    check_whole_training({network, {3, 224, 224}, 2}, 1, kDeepTraining);
    check_whole_inference({network, {3, 224, 224}, 2}, kDeepInference);
  }
}
