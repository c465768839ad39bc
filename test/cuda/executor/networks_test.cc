// Whole networks on the emulated device. First, each node is compared with the reference, given the inputs that the
// executor itself computed. Second, several training steps with changing weights are compared with the reference
// backend in float32.

#include <algorithm>

#include "emulator.h"
#include "exec/check.h"
#include "optim/initializer.h"
#include "plain_runner.h"
#include "steps.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Network;
using exec::test::run_step;
using exec::test::Step;

namespace {

void check_nodes(const Network& network, Type type) {
  INFO(network.name << " in " << type_name(type));
  const graph::Graph graph = model(network);
  const Options options{.batch_size = network.batch,
                        .inputs = {{.shape = network.image}},
                        .winograd = false,
                        .dtype = type,
                        .keep_all = true};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  executor->set_loss_scale({1024});
  REQUIRE(optim::initialize({}, executor->parameters(), 1));
  const CheckReport report =
      check_against_reference(graph, options, *executor, random_batch(network, 1).view()).value();
  CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
}

struct Pair {
  std::unique_ptr<Executor> truth, tested;
};

// The tested executor is the one used in training: fused, with shared memory, in three buckets. In float32 the truth is
// the reference backend. In other types it is the executor that keeps every node separate, which was compared with the
// reference node by node: rounding to 16 bits changes maxima and signs in a network, so only the same rounding at the
// same places gives the same gradients.
Pair compile_pair(const Network& network, Type type) {
  const graph::Graph graph = model(network);
  Options options{.batch_size = network.batch,
                  .inputs = {{.shape = network.image}},
                  .winograd = false,
                  .bucket_begin = exec::test::three_buckets(graph, network.image)};
  options.dtype = type;
  Pair pair{.truth = {}, .tested = cuda::test::emulated_backend()->compile(graph, options).value()};
  options.keep_all = true;
  auto backend = type == Type::kFloat32 ? make_reference_backend() : cuda::test::emulated_backend();
  pair.truth = backend->compile(graph, options).value();
  for (Executor* executor : {pair.truth.get(), pair.tested.get()}) executor->set_loss_scale({1024});
  REQUIRE(optim::initialize({}, pair.truth->parameters(), 1));
  return pair;
}

// Steps from the third on replay the graph that the second one captured. Every step begins with the truth's weights;
// otherwise a ReLU or a maximum that rounding decides differently would cause differences that grow from step to step.
void check_training(const Network& network, Type type, int steps, double tolerance) {
  INFO(network.name << " in " << type_name(type));
  const Pair pair = compile_pair(network, type);
  for (int step = 1; step <= steps; step++) {
    INFO("step " << step);
    const exec::test::HostBatch batch = random_batch(network, static_cast<uint64_t>(step));
    exec::test::copy_weights(pair.truth->parameters(), pair.tested->parameters());
    const Step truth = run_step(*pair.truth, batch.view()).value(),
               tested = run_step(*pair.tested, batch.view()).value();
    const exec::test::Difference difference = largest_difference(truth, tested, gradient_floor(truth));
    INFO(difference.tensor);
    CHECK(difference.error <= tolerance);
    exec::test::descend(pair.truth->parameters(), 0.01F);
  }
}

}  // namespace

TEST_CASE("networks agree with the reference node by node on the emulated device", "[cuda][exec][networks]") {
  check_nodes({"lenet", {1, 28, 28}, 3}, Type::kFloat32);
  check_nodes({"lenet-stn", {1, 28, 28}, 3}, Type::kFloat32);
  check_nodes({"resnet-28-small-20", {3, 28, 28}, 2}, Type::kFloat32);
  check_nodes({"resnet-20", {3, 28, 28}, 2}, Type::kFloat32);
  check_nodes({"inception-bn-28-small", {3, 28, 28}, 2}, Type::kFloat32);
  check_nodes({"inception-bn-28-small@v0.7", {3, 28, 28}, 2}, Type::kFloat32);
  check_nodes({"cross-20", {3, 28, 28}, 2}, Type::kFloat32);
}

TEST_CASE("networks in 16 bit agree with the reference node by node on the emulated device", "[cuda][exec][networks]") {
  for (const Type type : {Type::kFloat16, Type::kBfloat16}) {
    check_nodes({"lenet", {1, 28, 28}, 3}, type);
    check_nodes({"lenet-stn", {1, 28, 28}, 3}, type);
    check_nodes({"resnet-20", {3, 28, 28}, 2}, type);  // its images go through a batch norm first
    check_nodes({"inception-bn-28-small", {3, 28, 28}, 2}, type);
    check_nodes({"cross-20", {3, 28, 28}, 2}, type);
  }
}

// A sign that rounding decides differently causes a difference of some thousandths in a network of this depth and
// batch.
TEST_CASE("networks train as with the reference on the emulated device", "[cuda][exec][networks]") {
  check_training({"lenet", {1, 28, 28}, 4}, Type::kFloat32, 5, 1e-4);
  check_training({"resnet-v1-20", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
  check_training({"inception-bn-28-small", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
  check_training({"cross-20", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
}

TEST_CASE("networks train as with the reference, as late as streams may run", "[cuda][exec][networks]") {
  const cuda::emulator::LateStreams late;
  check_training({"lenet", {1, 28, 28}, 4}, Type::kFloat32, 4, 1e-4);
  check_training({"resnet-v1-20", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
}

// A ResNet's images go through a batch norm that learns only beta. It needs nothing but the sum of the first
// convolution's gradient by its input, so that is computed from the sum of the images' gradients, as for one image.
TEST_CASE("the gradient of a batch norm of the images comes from the sum over them", "[cuda][exec][networks]") {
  const Network network{"resnet-20", {3, 28, 28}, 4};
  const Pair pair = compile_pair(network, Type::kFloat32);
  const exec::test::HostBatch batch = random_batch(network, 1);
  exec::test::copy_weights(pair.truth->parameters(), pair.tested->parameters());
  const Step truth = run_step(*pair.truth, batch.view()).value();
  const cuda::emulator::Session session;
  const Step tested = run_step(*pair.tested, batch.view()).value();
  const auto gradient = [](const Step& step, const std::string& of) {
    const auto found = std::ranges::find(step.tensors, "gradient of " + of, &Step::Tensor::name);
    REQUIRE(found != step.tensors.end());
    return Step{.tensors = {*found}};
  };
  CHECK(largest_difference(gradient(truth, "bn_data_beta"), gradient(tested, "bn_data_beta"), 0).error < 1e-4);
  CHECK(largest_difference(gradient(truth, "bn_data_gamma"), gradient(tested, "bn_data_gamma"), 1).error == 0);
  std::vector<std::string> of_images;
  for (const auto& r : session.records()) {
    if (r.name.starts_with("backward data") && r.name.find("x3x28x28") != std::string::npos)
      of_images.push_back(r.name);
  }
  CHECK(of_images == std::vector<std::string>{"backward data float32 1x3x28x28 k16 3x3 s1 p1"});
}

// lenet has no fused nodes, so the bits must be equal. (With fusions, as in cases_test.cc, deep networks cannot be
// compared like this: a sign that an additional rounding decides differently changes all gradients before it.)
TEST_CASE("lenet trains in 16 bits as it does node by node", "[cuda][exec][networks]") {
  for (const Type type : {Type::kFloat16, Type::kBfloat16}) {
    check_training({"lenet", {1, 28, 28}, 4}, type, 4, 0);
  }
}
