#include "bucket_checks.h"
#include "emulator.h"
#include "plain_runner.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::bucket_options;
using exec::test::fill_parameters;
using exec::test::HostBatch;
using exec::test::Values;

namespace {

constexpr int64_t kBatchSize = 2;

const exec::test::Case& network() {
  static const exec::test::Case network = exec::test::three_convolutions(kBatchSize);
  return network;
}

Options options_with(std::vector<size_t> bucket_begin) {
  return bucket_options(kBatchSize, std::move(bucket_begin));
}

HostBatch random_batch(uint64_t seed) {
  return make_batch(network(), Values::kFloats, seed);
}

std::unique_ptr<Executor> compile(const Options& options, Executor* weights_of = nullptr) {
  return cuda::test::emulated_backend()->compile(network().graph, options, weights_of).value();
}

}  // namespace

TEST_CASE("buckets are awaited and announced once each and in order by the device", "[cuda][exec]") {
  check_order_of_buckets(network(), 4, 5, compile);
}

TEST_CASE("the device reads weights only between their wait and their announcement", "[cuda][exec]") {
  check_lent_weights(network(), options_with({0, 3, 4, 9, 12}), compile);
}

TEST_CASE("weights are read only between their wait and their announcement, as late as streams may run",
          "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  check_lent_weights(network(), options_with({0, 3, 4, 9, 12}), compile);
}

// Gradients of late layers are announced while early layers still compute: when the first bucket is announced, nothing
// has run that only later buckets need.
TEST_CASE("a bucket is announced before earlier layers have run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  auto executor = compile(options_with({0, 12}));
  const ParameterView& view = executor->parameters();
  fill_parameters(view, Values::kFloats, 1);
  const HostBatch batch = random_batch(1);
  std::ranges::fill(view.parameters[0].gradient, -1.0F);
  REQUIRE(executor->forward(batch.view(), no_wait));
  REQUIRE(executor->backward([&](size_t bucket) -> Result<> {
    const bool untouched = view.parameters[0].gradient[0] == -1.0F;
    CHECK(untouched == (bucket == 1));
    return {};
  }));
}

TEST_CASE("an error of a wait or an announcement ends the pass of the device", "[cuda][exec]") {
  check_errors_of_buckets(network(), compile);
}

// The host does not wait for the inference before its weights change.
TEST_CASE("a pass does not change its weights until another executor's pass is over", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  auto training = compile(options_with({0, 5}));
  Options options = options_with({0});
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
  check_shared_weights(network(), compile);
}

TEST_CASE("executors of a device share weights, as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  check_shared_weights(network(), compile);
}

TEST_CASE("tensors that are not needed at the same time share memory on the device", "[cuda][exec]") {
  Options options = options_with({0});
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
    return cuda::make_backend(0, cuda::test::plain_runner(pass))->compile(network().graph, options_with({0}));
  };
  const auto refused = refuse("backward filter");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kDevice);
  CHECK_THAT(refused.error().text(), Catch::Matchers::Contains("planning node"));

  cuda::emulator::fail_next_call(2);  // cudaErrorMemoryAllocation
  const auto full = cuda::test::emulated_backend()->compile(network().graph, options_with({0}));
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::kDevice);
  CHECK_THAT(full.error().message, Catch::Matchers::Contains("out of memory"));
}

namespace {

// A step of a residual unit on a device that refuses some passes: its gradients, and how many launches' names contain
// each text.
struct ResidualStep {
  std::vector<float> gradients;
  std::vector<cuda::emulator::Record> records;

  explicit ResidualStep(const char* refused) {
    std::vector<exec::test::Case> cases = exec::test::operator_cases();
    const auto c =
        std::ranges::find(cases, "residual unit, projection of the activated input", &exec::test::Case::name);
    REQUIRE(c != cases.end());
    Options options = exec::test::case_options(*c);
    options.keep_all = false;
    const auto runner = cuda::test::plain_runner(refused);
    const auto executor = cuda::make_backend(0, runner)->compile(c->graph, options).value();
    fill_parameters(executor->parameters(), Values::kIntegers, 1);
    const HostBatch batch = make_batch(*c, Values::kIntegers, 1);
    const cuda::emulator::Session session;
    REQUIRE(executor->forward(batch.view(), no_wait));
    REQUIRE(executor->backward(no_wait));
    records = session.records();
    const std::span<const float> all = executor->parameters().all_gradients;
    gradients.assign(all.begin(), all.end());
  }
  [[nodiscard]] int64_t count(const std::string& part) const {
    return std::ranges::count_if(records, [&](const auto& r) { return r.name.find(part) != std::string::npos; });
  }
};

}  // namespace

TEST_CASE("a device whose convolutions cannot add has kernels that do", "[cuda][exec]") {
  const ResidualStep adding(""), no_forward(" + z"), no_backward(" + dx");
  CHECK(adding.count(" + z") == 1);
  CHECK(adding.count(" + dx") == 1);
  CHECK(adding.count("sum") == no_forward.count("sum") - 1);
  CHECK(adding.count("sum") == no_backward.count("sum") - 1);
  CHECK(no_forward.count(" + z") == 0);
  CHECK(no_backward.count(" + dx") == 0);
  CHECK(no_forward.gradients == adding.gradients);
  CHECK(no_backward.gradients == adding.gradients);
}

TEST_CASE("a label that is not a class is refused before anything runs", "[cuda][exec]") {
  auto executor = compile(options_with({0}));
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
    Options options = options_with({0});
    options.tf32 = tf32;
    REQUIRE(cuda::make_backend(0, runner)->compile(network().graph, options));
    CHECK(runner->asked.size() > 6);
    CHECK(std::ranges::count(runner->asked, tf32) == std::ssize(runner->asked));
  }
}
