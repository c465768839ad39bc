// Training with the learned tensors in device memory. It must give the bits of training with host memory, and run as
// one graph.
#include <limits>

#include "cases.h"
#include "cuda/optimizer.h"
#include "emulator.h"
#include "graph/models/models.h"
#include "plain_runner.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::fill_parameters;
using exec::test::HostBatch;
using exec::test::Values;

namespace {

constexpr int64_t kBatch = 2;
const optim::OptimizerSpec kSgd{.momentum = 0.9, .weight_decay = 0.01, .clip_gradient = 0.5};

const graph::Graph& lenet() {
  static const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  return graph;
}

HostBatch batch_of(uint64_t seed) {
  return make_batch({.name = "", .graph = lenet(), .image = {1, 28, 28}, .batch = kBatch}, Values::kFloats, seed);
}

Options options_of(Type type, bool on_device, std::vector<size_t> buckets = {0}) {
  return {.batch_size = kBatch,
          .inputs = {{.shape = {1, 28, 28}}},
          .bucket_begin = std::move(buckets),
          .dtype = type,
          .parameters_on_device = on_device};
}

// An executor with an optimizer for its parameters, with one group per bucket.
struct Device {
  Options options;
  optim::OptimizerSpec rule;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<optim::ArrayOptimizer> optimizer;

  explicit Device(const Options& wanted, const optim::OptimizerSpec& rule = kSgd) : options(wanted), rule(rule) {
    executor = cuda::test::emulated_backend()->compile(lenet(), options).value();
    make_optimizer();
    fill_parameters(executor->parameters(), Values::kFloats, 7);
    REQUIRE(copy_to_device(executor->parameters(), executor->device_parameters()));
  }

  void make_optimizer() {
    optimizer = options.parameters_on_device ? cuda::make_device_optimizer(*executor, rule).value()
                                             : optim::make_host_optimizer(rule, 1).value();
    const ParameterView& view = executor->device_parameters();
    std::vector<std::vector<optim::LearnedArray>> groups(options.bucket_begin.size());
    for (size_t p = 0, b = 0; p < view.parameters.size(); p++) {
      if (b + 1 < groups.size() && p == options.bucket_begin[b + 1]) b++;
      const ParameterSpan& array = view.parameters[p];
      groups[b].push_back({optim::multipliers_of(array.kind), array.weight, array.gradient});
    }
    optimizer->bind(groups);
  }
  Result<> launch_backward(double rate, uint64_t updates = 1) {
    return executor->backward([=, this](size_t bucket) -> Result<> {
      optimizer->search(bucket);
      optimizer->update(bucket, {.learning_rate = rate, .gradient_scale = 1.0 / kBatch, .updates = updates});
      return {};
    });
  }
  Result<> backward(double rate, uint64_t updates = 1) {
    DT_TRY_VOID(launch_backward(rate, updates));
    return executor->finish();
  }
  void step(uint64_t seed) {
    const HostBatch batch = batch_of(seed);
    REQUIRE(executor->forward(batch.view(), no_wait));
    REQUIRE(backward(0.1 / static_cast<double>(seed), seed));
  }
  // Weights, statistics, the first parameter's state and the probabilities of the last batch.
  std::vector<float> all() {
    REQUIRE(copy_to_host(executor->device_parameters(), executor->parameters()));
    const ParameterView& view = executor->parameters();
    std::vector<float> values(executor->result(0).begin(), executor->result(0).end());
    values.insert(values.end(), view.all_weights.begin(), view.all_weights.end());
    values.insert(values.end(), view.all_statistics.begin(), view.all_statistics.end());
    for (size_t slot = 0; slot < optim::state_slots(rule)->size(); slot++) {
      const std::span<const float> state = optimizer->state(0, 0, slot);
      std::vector<float> read(state.size());
      REQUIRE(read_array(executor->device_parameters().device, state, read));
      values.insert(values.end(), read.begin(), read.end());
    }
    return values;
  }
};

void check_bits(Type type, const std::vector<size_t>& buckets, const optim::OptimizerSpec& rule = kSgd) {
  Device on_host(options_of(type, false, buckets), rule), on_device(options_of(type, true, buckets), rule);
  for (uint64_t seed = 1; seed <= 7; seed++) {
    INFO("step " << seed << " of " << rule.name << " in " << type_name(type) << " with " << buckets.size()
                 << " buckets");
    on_host.step(seed);
    on_device.step(seed);
    CHECK(on_host.all() == on_device.all());
  }
}

}  // namespace

TEST_CASE("parameters on the device learn with the bits of those on the host", "[cuda][exec]") {
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBfloat16}) check_bits(type, {0});
  check_bits(Type::kFloat32, {0, 2, 4});
}

// From the fifth step on the device replays a graph, while the correction of adam changes with every step, and lbsgd
// only changes the weights in every second one.
TEST_CASE("every optimizer works on the device", "[cuda][exec]") {
  for (const char* rule : {"adam", "rmsprop@v0.7"}) check_bits(Type::kFloat32, {0, 2, 4}, {.name = rule});
  for (const double lars : {0, 1}) {
    check_bits(Type::kFloat32, {0, 2, 4}, {.name = "lbsgd", .parameters = {{"batch_scale", 2}, {"lars", lars}}});
  }
  for (const Type type : {Type::kFloat32, Type::kFloat16}) check_bits(type, {0, 2, 4}, {.name = "lars"});
  const Device device(options_of(Type::kFloat32, true));
  for (const std::string& rule : optim::optimizer_names()) {
    INFO(rule);
    CHECK(cuda::make_device_optimizer(*device.executor, {.name = rule}).has_value());
  }
  const optim::OptimizerSpec centered{.name = "rmsprop", .parameters = {{"centered", 1}}};
  CHECK(cuda::make_device_optimizer(*device.executor, centered).has_value());
}

TEST_CASE("parameters on the device learn with the same bits as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  check_bits(Type::kFloat16, {0});
  check_bits(Type::kFloat32, {0, 2, 4});
}

namespace {

std::vector<std::string> names_of_step(Device& device, uint64_t seed) {
  const cuda::emulator::Session session;
  device.step(seed);
  std::vector<std::string> names;
  for (const auto& record : session.records()) names.push_back(record.name);
  return names;
}

}  // namespace

// A replayed step consists of copies of the batch and its labels, and the graph.
TEST_CASE("a step with parameters on the device is one graph from the fifth on", "[cuda][exec]") {
  for (const std::vector<size_t>& buckets : {std::vector<size_t>{0}, {0, 2, 4}}) {
    Device device(options_of(Type::kFloat32, true, buckets));
    const std::vector<std::string> plain = names_of_step(device, 1);
    CHECK(std::ranges::count(plain, "graph") == 0);
    CHECK(std::ranges::count(plain, "update") == static_cast<ptrdiff_t>(buckets.size()));
    CHECK(names_of_step(device, 2) == plain);
    for (const uint64_t seed : {3, 4}) {
      std::vector<std::string> captured = names_of_step(device, seed);
      CHECK(captured.back() == "graph");
      captured.pop_back();
      CHECK(captured == plain);
    }
    // Images and labels are first copied to a staging buffer, so that the next batch can be copied during a step, and
    // from there to where the graph reads them.
    const std::vector<std::string> copies = {"copy to device", "copy to device", "copy in device", "copy in device"};
    std::vector<std::string> replayed = names_of_step(device, 5);
    REQUIRE(replayed.back() == "graph");
    replayed.pop_back();
    CHECK(replayed == copies);
  }
}

TEST_CASE("reading the results before the backward pass changes nothing", "[cuda][exec]") {
  Device expected(options_of(Type::kFloat32, true)), looked_at(options_of(Type::kFloat32, true));
  for (uint64_t seed = 1; seed <= 6; seed++) {
    expected.step(seed);
    const HostBatch batch = batch_of(seed);
    REQUIRE(looked_at.executor->forward(batch.view(), no_wait));
    if (seed % 2 == 0) {
      const std::span<const float> seen = looked_at.executor->result(0);
      CHECK(std::ranges::equal(seen, expected.executor->result(0)));
    }
    REQUIRE(looked_at.backward(0.1 / static_cast<double>(seed)));
    CHECK(looked_at.all() == expected.all());
  }
}

// The bad step is queued directly, captured, or replayed.
TEST_CASE("the device skips an update whose gradients are not finite", "[cuda][exec]") {
  for (const uint64_t bad_step : {1, 2, 3, 4, 5, 6}) {
    INFO("step " << bad_step);
    Device device(options_of(Type::kFloat32, true));
    for (uint64_t seed = 1; seed < bad_step; seed++) device.step(seed);
    CHECK_FALSE(device.executor->skipped_update());
    REQUIRE(copy_to_host(device.executor->device_parameters(), device.executor->parameters()));
    const auto weights = device.executor->parameters().all_weights;
    const std::vector<float> before(weights.begin(), weights.end());
    HostBatch batch = batch_of(bad_step);
    batch.data[5] = std::numeric_limits<float>::infinity();
    REQUIRE(device.executor->forward(batch.view(), no_wait));
    REQUIRE(device.backward(0.1));
    CHECK(device.executor->skipped_update());
    REQUIRE(copy_to_host(device.executor->device_parameters(), device.executor->parameters()));
    CHECK(std::ranges::equal(weights, before));
    // The next batch is good, but its update is skipped too.
    device.step(9);
    CHECK(device.executor->skipped_update());
  }
}

// As for a step whose gradients are checked before they are handed over.
TEST_CASE("an update between two steps comes before the second one", "[cuda][exec]") {
  Device expected(options_of(Type::kFloat32, true));
  for (uint64_t seed = 1; seed <= 4; seed++) expected.step(seed);
  const std::vector<float> truth = expected.all();
  const cuda::emulator::LateStreams late;
  Device device(options_of(Type::kFloat32, true));
  for (uint64_t seed = 1; seed <= 4; seed++) {
    const HostBatch batch = batch_of(seed);
    REQUIRE(device.executor->forward(batch.view(), no_wait));
    REQUIRE(device.executor->backward(no_wait));
    REQUIRE(device.executor->finish());
    device.optimizer->update(0, {.learning_rate = 0.1 / static_cast<double>(seed), .gradient_scale = 1.0 / kBatch});
  }
  CHECK(device.all() == truth);
}

// The graph must not use the first optimizer, whose memory has been freed.
TEST_CASE("a step is recorded again for another optimizer", "[cuda][exec]") {
  Device device(options_of(Type::kFloat32, true));
  for (uint64_t seed = 1; seed <= 5; seed++) device.step(seed);
  device.optimizer.reset();
  device.make_optimizer();
  const std::vector<std::string> names = names_of_step(device, 6);
  CHECK(std::ranges::count(names, "graph") == 0);
  CHECK(std::ranges::count(names, "update") == 1);
}

namespace {

// Inference must see the weights and statistics that training computes on the device at once.
void infer_with_weights_on_device() {
  Device training(options_of(Type::kFloat32, true));
  Options options = training.options;
  options.purpose = Options::Purpose::kInference;
  const auto backend = cuda::test::emulated_backend();
  const auto inference = backend->compile(lenet(), options, training.executor.get()).value();
  options.parameters_on_device = false;
  const auto alone = backend->compile(lenet(), options).value();
  for (uint64_t seed = 1; seed <= 4; seed++) {
    training.step(seed);
    const HostBatch batch = batch_of(seed + 100);
    REQUIRE(inference->forward(Batch::of(batch.data), no_wait));
    REQUIRE(copy_to_host(training.executor->device_parameters(), training.executor->parameters()));
    std::ranges::copy(training.executor->parameters().all_weights, alone->parameters().all_weights.begin());
    REQUIRE(alone->forward(Batch::of(batch.data), no_wait));
    CHECK(std::ranges::equal(inference->result(0), alone->result(0)));
  }
}

}  // namespace

TEST_CASE("inference sees weights that stay on the device", "[cuda][exec]") {
  infer_with_weights_on_device();
}

TEST_CASE("inference sees weights that stay on the device, as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  infer_with_weights_on_device();
}

TEST_CASE("an error of the store ends the step on the device, and the step can be repeated", "[cuda][exec]") {
  const auto lost = [](size_t) -> Result<> { return fail(Code::kPeerLost, "rank 1 is gone"); };
  for (const int steps : {0, 1, 2, 4}) {
    Device device(options_of(Type::kFloat32, true));
    for (int i = 0; i < steps; i++) device.step(1);
    const HostBatch batch = batch_of(1);
    CHECK(device.executor->forward(batch.view(), lost).error().code == Code::kPeerLost);
    REQUIRE(device.executor->forward(batch.view(), no_wait));
    CHECK(device.executor->backward(lost).error().code == Code::kPeerLost);
    device.step(1);
    device.step(1);
  }
}
