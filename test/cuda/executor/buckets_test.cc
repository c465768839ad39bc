#include <algorithm>
#include <map>

#include "cases.h"
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

const graph::Graph& network() {
  static const graph::Graph graph = graph::build_model({.network = "3conv"}).value();
  return graph;
}

Options small_options(std::vector<size_t> bucket_begin) {
  return {.batch_size = 2, .inputs = {{.shape = {3, 28, 28}}}, .bucket_begin = std::move(bucket_begin)};
}

HostBatch random_batch(uint64_t seed) {
  return make_batch({.name = "", .graph = network(), .image = {3, 28, 28}, .batch = 2}, Values::kFloats, seed);
}

std::unique_ptr<Executor> compile(const Options& options, Executor* weights_of = nullptr) {
  return cuda::test::emulated_backend()->compile(network(), options, weights_of).value();
}

}  // namespace

// Every bucket is awaited once, in ascending order, and announced once, in descending order.
TEST_CASE("buckets are awaited and announced once each and in order by the device", "[cuda][exec]") {
  const size_t count = graph::infer_shapes(network(), {3, 28, 28})->parameters.size();
  for (size_t first = 1; first < count; first += 4) {
    for (size_t second = first; second < count; second += 5) {
      std::vector<size_t> begin{0, first};
      if (second > first) begin.push_back(second);
      INFO("buckets begin at 0, " << first << ", " << second);
      auto executor = compile(small_options(begin));
      fill_parameters(executor->parameters(), Values::kFloats, 1);
      const HostBatch batch = random_batch(1);
      std::vector<size_t> awaited, announced;
      REQUIRE(executor->forward(batch.view(), [&](size_t b) -> Result<> { return awaited.push_back(b), Result<>{}; }));
      REQUIRE(executor->backward([&](size_t b) -> Result<> { return announced.push_back(b), Result<>{}; }));
      std::vector<size_t> ascending(begin.size());
      for (size_t b = 0; b < begin.size(); b++) ascending[b] = b;
      CHECK(awaited == ascending);
      CHECK(announced == std::vector<size_t>(ascending.rbegin(), ascending.rend()));
    }
  }
}

namespace {

// Weights arrive only when their bucket is awaited. They and the gradients are overwritten as soon as the bucket is
// announced, and the batch as soon as forward returns. The results must be those of a run in which nothing was
// overwritten.
void lend_weights() {
  const std::vector<size_t> begin{0, 3, 4, 9, 12};
  auto plain = compile(small_options(begin)), lent = compile(small_options(begin));
  fill_parameters(plain->parameters(), Values::kFloats, 7);
  fill_parameters(lent->parameters(), Values::kFloats, 7);
  const auto& truth = plain->parameters().parameters;
  const auto& borrowed = lent->parameters().parameters;
  const auto for_bucket = [&](size_t bucket, const auto& visit) {
    const size_t end = bucket + 1 < begin.size() ? begin[bucket + 1] : truth.size();
    for (size_t p = begin[bucket]; p < end; p++) visit(p);
  };
  const auto spoil = [](std::span<float> values) { std::fill(values.begin(), values.end(), 1e30f); };
  for (const auto& parameter : borrowed) spoil(parameter.weight);

  std::map<size_t, std::vector<float>> gradients;
  for (const uint64_t seed : {1, 2, 3}) {
    HostBatch batch = random_batch(seed);
    REQUIRE(plain->forward(batch.view(), no_wait));
    REQUIRE(plain->backward(no_wait));
    REQUIRE(lent->forward(batch.view(), [&](size_t bucket) -> Result<> {
      for_bucket(bucket, [&](size_t p) {
        std::copy(truth[p].weight.begin(), truth[p].weight.end(), borrowed[p].weight.begin());
      });
      return {};
    }));
    spoil(batch.data);
    REQUIRE(lent->backward([&](size_t bucket) -> Result<> {
      for_bucket(bucket, [&](size_t p) {
        gradients[p].assign(borrowed[p].gradient.begin(), borrowed[p].gradient.end());
        spoil(borrowed[p].weight);
        spoil(borrowed[p].gradient);
      });
      return {};
    }));
    for (size_t p = 0; p < truth.size(); p++) {
      INFO(truth[p].name << " with seed " << seed);
      CHECK(std::equal(truth[p].gradient.begin(), truth[p].gradient.end(), gradients[p].begin()));
    }
  }
}

}  // namespace

TEST_CASE("the device reads weights only between their wait and their announcement", "[cuda][exec]") {
  lend_weights();
}

TEST_CASE("weights are read only between their wait and their announcement, as late as streams may run",
          "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  lend_weights();
}

// Gradients of late layers are announced while early layers still compute: when the first bucket is announced, nothing
// has run that only later buckets need.
TEST_CASE("a bucket is announced before earlier layers have run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  auto executor = compile(small_options({0, 12}));
  fill_parameters(executor->parameters(), Values::kFloats, 1);
  const HostBatch batch = random_batch(1);
  std::ranges::fill(executor->parameters().parameters[0].gradient, -1.0F);
  REQUIRE(executor->forward(batch.view(), no_wait));
  REQUIRE(executor->backward([&](size_t bucket) -> Result<> {
    const bool untouched = executor->parameters().parameters[0].gradient[0] == -1.0F;
    CHECK(untouched == (bucket == 1));
    return {};
  }));
}

TEST_CASE("an error of a wait or an announcement ends the pass of the device", "[cuda][exec]") {
  auto executor = compile(small_options({0, 5}));
  const HostBatch batch = random_batch(1);
  const auto lost = [](size_t bucket) -> Result<> {
    if (bucket == 1) return fail(Code::kPeerLost, "server 1 went silent");
    return {};
  };
  CHECK(executor->forward(batch.view(), lost).error().code == Code::kPeerLost);
  REQUIRE(executor->forward(batch.view(), no_wait));
  CHECK(executor->backward(lost).error().code == Code::kPeerLost);
  CHECK(executor->forward(batch.view(), no_wait));
}

namespace {

// An inference executor made with weights_of sees new weights and moving statistics at once.
void share_weights() {
  auto training = compile(small_options({0, 5}));
  Options options = small_options({0});
  options.purpose = Options::Purpose::kInference;
  auto inference = compile(options, training.get()), alone = compile(options);
  CHECK(inference->parameters().parameters[0].gradient.empty());
  for (const uint64_t seed : {1, 2, 3}) {
    const HostBatch batch = random_batch(seed);
    fill_parameters(training->parameters(), Values::kFloats, seed);
    REQUIRE(training->forward(batch.view(), no_wait));  // changes the statistics
    const ParameterView &from = training->parameters(), &to = alone->parameters();
    for (size_t i = 0; i < from.parameters.size(); i++)
      std::ranges::copy(from.parameters[i].weight, to.parameters[i].weight.begin());
    for (size_t i = 0; i < from.statistics.size(); i++)
      std::ranges::copy(from.statistics[i].weight, to.statistics[i].weight.begin());
    REQUIRE(inference->forward(Batch::of(batch.data), no_wait));
    REQUIRE(alone->forward(Batch::of(batch.data), no_wait));
    CHECK(std::ranges::equal(inference->result(0), alone->result(0)));
  }
}

}  // namespace

// The host does not wait for the inference before its weights change.
TEST_CASE("a pass does not change its weights until another executor's pass is over", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  auto training = compile(small_options({0, 5}));
  Options options = small_options({0});
  options.purpose = Options::Purpose::kInference;
  auto inference = compile(options, training.get());
  const HostBatch batch = random_batch(1);
  std::vector<float> first;
  for (int round = 0; round < 2; round++) {
    fill_parameters(training->parameters(), Values::kFloats, 1);
    REQUIRE(inference->forward(Batch::of(batch.data), no_wait));
    if (round == 0) first.assign(inference->result(0).begin(), inference->result(0).end());
    fill_parameters(training->parameters(), Values::kFloats, 2);
    REQUIRE(training->forward(batch.view(), no_wait));
    CHECK(std::ranges::equal(inference->result(0), first));
  }
}

TEST_CASE("executors of a device share weights", "[cuda][exec]") {
  share_weights();
}

TEST_CASE("executors of a device share weights, as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  share_weights();
}

TEST_CASE("tensors that are not needed at the same time share memory on the device", "[cuda][exec]") {
  Options options = small_options({0});
  const size_t shared = compile(options)->memory_bytes();
  options.purpose = Options::Purpose::kInference;
  const size_t inference = compile(options)->memory_bytes();
  options.purpose = Options::Purpose::kTraining;
  options.keep_all = true;
  CHECK(inference < shared);
  CHECK(4 * shared < 3 * compile(options)->memory_bytes());
}

TEST_CASE("an operation that a device does not support is an Error of the right kind", "[cuda][exec]") {
  const auto refuse = [](const char* pass) {
    return cuda::make_backend(0, cuda::test::plain_runner(pass))->compile(network(), small_options({0}));
  };
  const auto refused = refuse("backward filter");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kDevice);
  CHECK_THAT(refused.error().text(), Catch::Matchers::Contains("for node"));

  cuda::emulator::fail_next_call(2);  // cudaErrorMemoryAllocation
  const auto full = cuda::test::emulated_backend()->compile(network(), small_options({0}));
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::kDevice);
  CHECK_THAT(full.error().message, Catch::Matchers::Contains("cudaErrorMemoryAllocation"));
}

TEST_CASE("a label that is not a class is refused before anything runs", "[cuda][exec]") {
  auto executor = compile(small_options({0}));
  HostBatch batch = random_batch(1);
  batch.labels[1] = 10000;
  CHECK(executor->forward(batch.view(), no_wait).error().code == Code::kData);
}

namespace {

// Records for each pass whether products may be rounded to TF32.
class Watch final : public cuda::ConvolutionRunner {
 public:
  Result<std::shared_ptr<const cuda::ConvolutionPlan>> plan(const cuda::ConvolutionPass& pass, bool tf32) override {
    asked.push_back(tf32);
    return plain_->plan(pass, tf32);
  }
  std::vector<bool> asked;

 private:
  std::shared_ptr<cuda::ConvolutionRunner> plain_ = cuda::test::plain_runner();
};

}  // namespace

// plans_test.cc checks the effect on plans.
TEST_CASE("every plan is told whether TF32 is allowed", "[cuda][exec]") {
  for (const bool tf32 : {false, true}) {
    const auto runner = std::make_shared<Watch>();
    Options options = small_options({0});
    options.tf32 = tf32;
    REQUIRE(cuda::make_backend(0, runner)->compile(network(), options));
    CHECK(runner->asked.size() > 6);
    CHECK(std::ranges::count(runner->asked, tf32) == std::ssize(runner->asked));
  }
}
