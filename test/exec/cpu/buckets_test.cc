#include <algorithm>
#include <map>
#include <numeric>

#include "cases.h"
#include "exec/contract.h"
#include "exec/cpu/buckets.h"
#include "graph/models/models.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

Options small_options(std::vector<size_t> bucket_begin) {
  return {.batch_size = 4, .inputs = {{.shape = {3, 28, 28}}}, .bucket_begin = std::move(bucket_begin)};
}

test::HostBatch random_batch(const graph::Graph& graph, uint64_t seed) {
  return make_batch({.name = "", .graph = graph, .image = {3, 28, 28}, .batch = 4}, test::Values::kFloats, seed);
}

const graph::Graph& network() {
  static const graph::Graph graph = graph::build_model({.network = "3conv"}).value();
  return graph;
}

}  // namespace

// Every bucket is awaited once, starting with the first, and announced once, starting with the last, however 16
// parameters are divided into two or three buckets.
TEST_CASE("buckets are awaited and announced once each and in order", "[exec][cpu]") {
  const size_t count = graph::infer_shapes(network(), {3, 28, 28})->parameters.size();
  for (size_t first = 1; first < count; first++) {
    for (size_t second = first; second < count; second += 3) {
      std::vector<size_t> begin{0, first};
      if (second > first) begin.push_back(second);
      INFO("buckets begin at 0, " << first << ", " << second);
      auto executor = make_cpu_backend()->compile(network(), small_options(begin)).value();
      test::fill_parameters(executor->parameters(), test::Values::kFloats, 1);
      const test::HostBatch batch = random_batch(network(), 1);
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

// Weights arrive only when their bucket is awaited; weights and gradients are overwritten as soon as it is announced.
// The results must equal those of an undisturbed run. So nothing is read before its wait or after its announcement, and
// an announced gradient is complete.
void check_lent(const test::Case& c, const std::vector<size_t>& begin) {
  Options options = case_options(c);
  options.winograd = true;
  options.keep_all = false;
  options.bucket_begin = begin;
  auto plain = make_cpu_backend()->compile(c.graph, options).value();
  auto lent = make_cpu_backend()->compile(c.graph, options).value();
  test::fill_parameters(plain->parameters(), test::Values::kFloats, 7);
  test::fill_parameters(lent->parameters(), test::Values::kFloats, 7);
  const auto& truth = plain->parameters().parameters;
  const auto& borrowed = lent->parameters().parameters;
  const auto for_bucket = [&](size_t bucket, const auto& visit) {
    const size_t end = bucket + 1 < begin.size() ? begin[bucket + 1] : truth.size();
    for (size_t p = begin[bucket]; p < end; p++) visit(p);
  };
  const auto spoil = [](std::span<float> values) { std::fill(values.begin(), values.end(), 1e30f); };
  for (const auto& parameter : borrowed) spoil(parameter.weight);

  std::map<size_t, std::vector<float>> gradients;
  for (const uint64_t seed : {1, 2}) {
    const test::HostBatch batch = make_batch(c, test::Values::kFloats, seed);
    REQUIRE(plain->forward(batch.view(), no_wait));
    REQUIRE(plain->backward(no_wait));
    REQUIRE(lent->forward(batch.view(), [&](size_t bucket) -> Result<> {
      for_bucket(bucket, [&](size_t p) {
        std::copy(truth[p].weight.begin(), truth[p].weight.end(), borrowed[p].weight.begin());
      });
      return {};
    }));
    REQUIRE(lent->backward([&](size_t bucket) -> Result<> {
      for_bucket(bucket, [&](size_t p) {
        gradients[p].assign(borrowed[p].gradient.begin(), borrowed[p].gradient.end());
        spoil(borrowed[p].weight);
        spoil(borrowed[p].gradient);
      });
      return {};
    }));
    for (size_t p = 0; p < truth.size(); p++) {
      INFO(truth[p].name);
      CHECK(std::equal(truth[p].gradient.begin(), truth[p].gradient.end(), gradients[p].begin()));
    }
  }
}

}  // namespace

TEST_CASE("weights are read only between their wait and their announcement", "[exec][cpu]") {
  check_lent({.name = "", .graph = network(), .image = {3, 28, 28}, .batch = 4}, {0, 3, 4, 9, 12});
}

TEST_CASE("shared weights are read only between their wait and their announcement", "[exec][cpu]") {
  for (const test::Case& c : test::operator_cases()) {
    INFO(c.name);
    std::vector<size_t> begin(infer_shapes(c.graph, exec::test::case_options(c))->parameters.size());
    std::iota(begin.begin(), begin.end(), 0);
    check_lent(c, begin);
    check_lent(c, {0});
  }
}

TEST_CASE("an error of a wait or an announcement ends the pass", "[exec][cpu]") {
  auto executor = make_cpu_backend()->compile(network(), small_options({0, 5})).value();
  const test::HostBatch batch = random_batch(network(), 1);
  const auto lost = [](size_t bucket) -> Result<> {
    if (bucket == 1) return fail(Code::kPeerLost, "server 1 went silent");
    return {};
  };
  CHECK(executor->forward(batch.view(), lost).error().code == Code::kPeerLost);
  REQUIRE(executor->forward(batch.view(), no_wait));
  CHECK(executor->backward(lost).error().code == Code::kPeerLost);
}

// An executor for inference made with weights_of uses new weights and moving statistics at once, with its own batch
// size.
TEST_CASE("executors share weights", "[exec][cpu]") {
  auto backend = make_cpu_backend();
  auto training = backend->compile(network(), small_options({0})).value();
  Options options = small_options({0});
  options.purpose = Options::Purpose::kInference;
  auto inference = backend->compile(network(), options, training.get()).value();
  auto alone = backend->compile(network(), options).value();
  CHECK(inference->parameters().parameters[0].gradient.empty());
  for (const uint64_t seed : {1, 2}) {
    const test::HostBatch batch = random_batch(network(), seed);
    test::fill_parameters(training->parameters(), test::Values::kFloats, seed);
    REQUIRE(training->forward(batch.view(), no_wait));  // moves the statistics
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
