// Whole networks on the emulated device: each node against the reference, from the inputs that the executor itself came
// to; and several steps as they are trained, with weights that change, against the CPU's reference in float32.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "emulator.h"
#include "exec/check.h"
#include "exec/norm.h"
#include "graph/models/models.h"
#include "optim/initializer.h"
#include "plain_runner.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

struct Network {
  std::string name;
  Shape image;
  int64_t batch;
};

graph::Graph model(const Network& network) {
  return graph::build_model({.network = network.name, .num_classes = 10, .image = network.image}).value();
}

void initialize(const ParameterView& view) {
  for (const auto* list : {&view.parameters, &view.statistics}) {
    for (size_t i = 0; i < list->size(); i++) {
      optim::initialize({}, (*list)[i].name, (*list)[i].shape, 1, i, (*list)[i].weight);
    }
  }
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

void check_nodes(const Network& network, Type type) {
  INFO(network.name << " in " << type_name(type));
  const graph::Graph graph = model(network);
  const Options options{
      .batch_size = network.batch, .image = network.image, .winograd = false, .dtype = type, .keep_all = true};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  executor->set_loss_scale(1024);
  initialize(executor->parameters());
  const CheckReport report = check_against_reference(graph, options, *executor, Batches(network, 1).view()).value();
  CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
}

struct Pair {
  std::unique_ptr<Executor> truth, tested;
};

void copy_weights(const ParameterView& from, const ParameterView& to) {
  for (size_t p = 0; p < from.parameters.size(); p++)
    std::ranges::copy(from.parameters[p].weight, to.parameters[p].weight.begin());
  for (size_t s = 0; s < from.statistics.size(); s++)
    std::ranges::copy(from.statistics[s].weight, to.statistics[s].weight.begin());
}

void descend(const ParameterView& view) {
  for (const ParameterSpan& p : view.parameters) {
    for (size_t i = 0; i < p.weight.size(); i++) p.weight[i] -= 0.01F * p.gradient[i];
  }
}

void check_step(const Pair& pair, double tolerance) {
  // Beside the step's other gradients, what is left of a sum that cancels, as of a bias before a batch norm, is
  // nothing.
  const double floor = 1e-2 * norm(std::span<const float>(pair.truth->parameters().all_gradients));
  const auto check = [&](const std::string& name, std::span<const float> expected, std::span<const float> found) {
    INFO(name);
    CHECK(normalised_error(found, std::vector<double>(expected.begin(), expected.end()), floor) <= tolerance);
  };
  check("probabilities", pair.truth->probabilities(), pair.tested->probabilities());
  const ParameterView &a = pair.truth->parameters(), &b = pair.tested->parameters();
  for (size_t p = 0; p < a.parameters.size(); p++) {
    check(a.parameters[p].name, a.parameters[p].gradient, b.parameters[p].gradient);
  }
  for (size_t s = 0; s < a.statistics.size(); s++) {
    check(a.statistics[s].name, a.statistics[s].weight, b.statistics[s].weight);
  }
}

// What is trained: fused, in shared memory, in three buckets. The truth in float32 is the reference, in other types the
// executor that keeps every node apart, which was compared with the reference node by node: rounding to 16 bit moves
// maxima and signs in a network, so that only the same roundings at the same places give the same gradients.
Pair compile_pair(const Network& network, Type type) {
  const graph::Graph graph = model(network);
  const size_t count = graph::infer_shapes(graph, network.image)->parameters.size();
  Options options{.batch_size = network.batch,
                  .image = network.image,
                  .winograd = false,
                  .bucket_begin = {0, count / 3, 2 * count / 3}};
  options.dtype = type;
  Pair pair{.truth = {}, .tested = cuda::test::emulated_backend()->compile(graph, options).value()};
  options.keep_all = true;
  auto backend = type == Type::kFloat32 ? make_reference_backend() : cuda::test::emulated_backend();
  pair.truth = backend->compile(graph, options).value();
  for (Executor* executor : {pair.truth.get(), pair.tested.get()}) executor->set_loss_scale(1024);
  initialize(pair.truth->parameters());
  return pair;
}

// The third step and later ones replay what the second one captured. Every step begins with the truth's weights: a ReLU
// or a maximum that rounding decides the other way would otherwise grow from step to step.
void check_training(const Network& network, Type type, int steps, double tolerance) {
  INFO(network.name << " in " << type_name(type));
  const Pair pair = compile_pair(network, type);
  for (int step = 1; step <= steps; step++) {
    INFO("step " << step);
    const Batches batch(network, static_cast<uint64_t>(step));
    copy_weights(pair.truth->parameters(), pair.tested->parameters());
    for (Executor* executor : {pair.truth.get(), pair.tested.get()}) {
      REQUIRE(executor->forward(batch.view(), no_wait));
      REQUIRE(executor->backward(no_wait));
    }
    check_step(pair, tolerance);
    descend(pair.truth->parameters());
  }
}

}  // namespace

TEST_CASE("networks agree with the reference node by node on the emulated device", "[cuda][exec]") {
  check_nodes({"lenet", {1, 28, 28}, 3}, Type::kFloat32);
  check_nodes({"resnet-28-small-20", {3, 28, 28}, 2}, Type::kFloat32);
  check_nodes({"resnet-20", {3, 28, 28}, 2}, Type::kFloat32);
  check_nodes({"inception-bn-28-small", {3, 28, 28}, 2}, Type::kFloat32);
}

TEST_CASE("networks in 16 bit agree with the reference node by node on the emulated device", "[cuda][exec]") {
  for (const Type type : {Type::kFloat16, Type::kBfloat16}) {
    check_nodes({"lenet", {1, 28, 28}, 3}, type);
    check_nodes({"resnet-20", {3, 28, 28}, 2}, type);  // its images go through a batch norm first
    check_nodes({"inception-bn-28-small", {3, 28, 28}, 2}, type);
  }
}

// A sign that rounding decides the other way is worth some thousandths in a network of this depth and batch.
TEST_CASE("networks train as with the reference on the emulated device", "[cuda][exec]") {
  check_training({"lenet", {1, 28, 28}, 4}, Type::kFloat32, 5, 1e-4);
  check_training({"resnet-v1-20", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
  check_training({"inception-bn-28-small", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
}

TEST_CASE("networks train as with the reference, as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  check_training({"lenet", {1, 28, 28}, 4}, Type::kFloat32, 4, 1e-4);
  check_training({"resnet-v1-20", {3, 28, 28}, 2}, Type::kFloat32, 3, 1e-2);
}

// lenet has nothing that is fused: the same bits. (Where there is, as in cases_test.cc, deep networks tell nothing: a
// sign that one rounding more decides the other way changes all gradients before it.)
TEST_CASE("lenet trains in 16 bit as it does node by node", "[cuda][exec]") {
  for (const Type type : {Type::kFloat16, Type::kBfloat16}) {
    check_training({"lenet", {1, 28, 28}, 4}, type, 4, 0);
  }
}
