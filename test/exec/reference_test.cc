#include "exec/reference/executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cases.h"
#include "graph/models/models.h"
#include "pixels.h"
#include "steps.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using dtrain::exec::reference::ReferenceExecutor;

// With integers, float32 and float64 agree bit for bit: nothing is rounded, so the order of summation does not matter.
TEST_CASE("integer cases are exact in float32", "[exec]") {
  for (const exec::test::Case& c : exec::test::operator_cases()) {
    if (!c.exact) continue;
    INFO(c.name);
    auto single = ReferenceExecutor<float>::compile(c.graph, case_options(c), nullptr).value();
    auto dbl = ReferenceExecutor<double>::compile(c.graph, case_options(c), nullptr).value();
    const exec::test::HostBatch batch = make_batch(c, exec::test::Values::kIntegers, 1);
    for (Executor* executor : {static_cast<Executor*>(single.get()), static_cast<Executor*>(dbl.get())}) {
      fill_parameters(executor->parameters(), exec::test::Values::kIntegers, 2);
      REQUIRE(executor->forward(batch.view(), no_wait));
      REQUIRE(executor->backward([](size_t) -> Result<> { return {}; }));
    }
    CHECK(single->result(0)[0] == 1.0F);
    const graph::NodeId head = c.graph.node(c.graph.output()).data_inputs[0];
    const std::vector<float> into_head = single->node_gradient(c.graph.node(head).data_inputs[0]);
    const bool flows = std::any_of(into_head.begin(), into_head.end(), [](float d) { return d != 0; });
    CHECK((flows || into_head.empty()));  // otherwise nothing was tested
    for (const graph::NodeId id : single->order()) {
      INFO("node " << c.graph.node(id).name);
      CHECK(single->node_output(id) == dbl->node_output(id));
      CHECK(single->node_gradient(id) == dbl->node_gradient(id));
    }
    for (size_t i = 0; i < single->parameters().parameters.size(); i++) {
      const auto &a = single->parameters().parameters[i], &b = dbl->parameters().parameters[i];
      INFO("parameter " << a.name);
      CHECK(std::equal(a.gradient.begin(), a.gradient.end(), b.gradient.begin()));
    }
  }
}

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

exec::test::Case case_called(const std::string& name) {
  for (exec::test::Case& c : exec::test::operator_cases()) {
    if (c.name == name) return std::move(c);
  }
  throw std::logic_error("no case " + name);
}

std::vector<std::vector<float>> copies(const std::vector<ParameterSpan>& spans, bool gradients) {
  std::vector<std::vector<float>> result;
  for (const ParameterSpan& p : spans) {
    const std::span<float> x = gradients ? p.gradient : p.weight;
    result.emplace_back(x.begin(), x.end());
  }
  return result;
}

// Weights are NaN until their bucket has been waited for, and again once its gradients are ready: an executor that
// reads them too early or too late computes NaNs.
void check_buckets(const exec::test::Case& c, std::vector<size_t> begin) {
  Options options = case_options(c);
  const auto whole = make_reference_backend()->compile(c.graph, options).value();
  options.bucket_begin = std::move(begin);
  const auto split = make_reference_backend()->compile(c.graph, options).value();
  const exec::test::HostBatch batch = make_batch(c, exec::test::Values::kFloats, 5);
  for (Executor* executor : {whole.get(), split.get()}) {
    fill_parameters(executor->parameters(), exec::test::Values::kFloats, 6);
  }
  REQUIRE(whole->forward(batch.view(), no_wait));
  REQUIRE(whole->backward([](size_t) -> Result<> { return {}; }));
  const std::vector<std::vector<float>> weights = copies(split->parameters().parameters, false);
  const std::vector<std::vector<float>> expected = copies(whole->parameters().parameters, true);

  std::vector<size_t> waited, announced;
  std::vector<std::vector<float>> gradients(weights.size());
  const auto for_each = [&](size_t bucket, auto&& visit) {
    const size_t end = bucket + 1 < options.bucket_begin.size() ? options.bucket_begin[bucket + 1] : weights.size();
    for (size_t i = options.bucket_begin[bucket]; i < end; i++) visit(i, split->parameters().parameters[i]);
  };
  for (size_t b = 0; b < options.bucket_begin.size(); b++) {
    for_each(b, [](size_t, const ParameterSpan& p) { std::fill(p.weight.begin(), p.weight.end(), kNaN); });
  }
  REQUIRE(split->forward(batch.view(), [&](size_t bucket) -> Result<> {
    waited.push_back(bucket);
    for_each(bucket, [&](size_t i, const ParameterSpan& p) {
      std::copy(weights[i].begin(), weights[i].end(), p.weight.begin());
    });
    return {};
  }));
  REQUIRE(split->backward([&](size_t bucket) -> Result<> {
    announced.push_back(bucket);
    for_each(bucket, [&](size_t i, const ParameterSpan& p) {
      gradients[i].assign(p.gradient.begin(), p.gradient.end());
      std::fill(p.weight.begin(), p.weight.end(), kNaN);
      std::fill(p.gradient.begin(), p.gradient.end(), kNaN);
    });
    return {};
  }));
  std::vector<size_t> ascending(options.bucket_begin.size());
  std::iota(ascending.begin(), ascending.end(), 0);
  CHECK(waited == ascending);
  CHECK(announced == std::vector<size_t>(ascending.rbegin(), ascending.rend()));
  CHECK(gradients == expected);
}

}  // namespace

TEST_CASE("buckets are waited for before their first reader and announced when complete", "[exec]") {
  // Inside a node, a single tensor, several nodes, the rest.
  check_buckets(case_called("residual unit, relu after the sum"), {0, 2, 3, 7});
}

TEST_CASE("the bucket of a shared weight is announced after the first node that reads it", "[exec]") {
  check_buckets(case_called("two losses with one head and one weight"), {0, 1, 2, 3});
  check_buckets(case_called("three fully connected layers share weight and bias"), {0, 1, 3, 4, 5});
}

TEST_CASE("the terms of a shared weight's gradient are added in the order of backward", "[exec]") {
  const auto backend = make_reference_backend();
  CHECK(exec::test::sum_of_terms(*backend, {0x1p-24, 0x1p-24, 1}) == 1);  // each small term is rounded away
  CHECK(exec::test::sum_of_terms(*backend, {1, 0x1p-24, 0x1p-24}) == 1 + 0x1p-23F);
}

TEST_CASE("an error while waiting or announcing ends the pass and names the node", "[exec]") {
  const exec::test::Case c = case_called("residual unit, relu after the sum");
  const auto executor = make_reference_backend()->compile(c.graph, case_options(c)).value();
  const exec::test::HostBatch batch = make_batch(c, exec::test::Values::kFloats, 5);
  const auto lost = [](size_t) -> Result<> { return fail(Code::kPeerLost, "server 1 is gone"); };
  const Result<> forward = executor->forward(batch.view(), lost);
  REQUIRE(!forward);
  CHECK(forward.error().text() == "error [peer lost] server 1 is gone\n  while before node 'before'");
  REQUIRE(executor->forward(batch.view(), no_wait));
  const Result<> backward = executor->backward(lost);
  REQUIRE(!backward);
  CHECK(backward.error().code == Code::kPeerLost);
}

// The executor for inference uses the other one's weights and statistics, normalizes by the statistics and does not
// change them.
TEST_CASE("an executor for inference shares the trained weights", "[exec]") {
  const exec::test::Case c = case_called("first batch norm, bn_data");
  Options options = case_options(c);
  const auto training = make_reference_backend()->compile(c.graph, options).value();
  options.purpose = Options::Purpose::kInference;
  const auto inference = make_reference_backend()->compile(c.graph, options, training.get()).value();
  fill_parameters(training->parameters(), exec::test::Values::kFloats, 6);
  const exec::test::HostBatch batch = make_batch(c, exec::test::Values::kFloats, 5);
  REQUIRE(training->forward(batch.view(), no_wait));
  const std::vector<std::vector<float>> statistics = copies(training->parameters().statistics, false);

  REQUIRE(inference->forward(Batch::of(batch.data), no_wait));  // labels are ignored
  CHECK(copies(training->parameters().statistics, false) == statistics);
  CHECK(inference->parameters().parameters[0].weight.data() == training->parameters().parameters[0].weight.data());
  CHECK(inference->parameters().parameters[0].gradient.empty());
  const auto& bn = std::get<graph::BatchNorm>(c.graph.node(1).op);
  const double inv_std = 1 / std::sqrt(statistics[1][0] + bn.epsilon);
  const double y = (batch.data[0] - statistics[0][0]) * inv_std + training->parameters().parameters[1].weight[0];
  CHECK(inference->node_output(1)[0] == Approx(y));
  CHECK(inference->node_gradient(1).empty());
  CHECK_THROWS_AS(inference->backward([](size_t) -> Result<> { return {}; }), CheckFailed);
}

TEST_CASE("a label that is not a class is refused with its position", "[exec]") {
  const exec::test::Case c = case_called("relu");
  const auto executor = make_reference_backend()->compile(c.graph, case_options(c)).value();
  exec::test::HostBatch batch = make_batch(c, exec::test::Values::kFloats, 5);
  for (const float label : {4.0F, -1.0F, 0.5F, kNaN, std::numeric_limits<float>::infinity()}) {
    batch.labels[1] = label;
    const Result<> result = executor->forward(batch.view(), no_wait);
    REQUIRE(!result);
    CHECK(result.error().code == Code::kData);
    CHECK_THAT(result.error().message, Catch::Contains("which is not in the range 0 to 3"));
  }
}

TEST_CASE("options that only a bug can cause are checked", "[exec]") {
  const exec::test::Case c = case_called("relu");
  const auto compile = [&](auto&& change) {
    Options options = case_options(c);
    change(options);
    return make_reference_backend()->compile(c.graph, options);
  };
  CHECK_THROWS_AS(compile([](Options& o) { o.bucket_begin = {1}; }), CheckFailed);
  CHECK_THROWS_AS(compile([](Options& o) { o.bucket_begin = {0, 2, 2}; }), CheckFailed);
  CHECK_THROWS_AS(compile([](Options& o) { o.bucket_begin = {0, 9}; }), CheckFailed);
  CHECK_THROWS_AS(compile([](Options& o) { o.bucket_begin = {}; }), CheckFailed);
  CHECK_THROWS_AS(compile([](Options& o) { o.batch_size = 0; }), CheckFailed);
  const auto refused = compile([](Options& o) { o.inputs[0].shape = {16, 7}; });
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
}

TEST_CASE("the reference computes the same from pixels as from the corresponding floats", "[exec]") {
  for (const int64_t channels : {1, 3, 4}) {
    const Shape image = {channels, 28, 28};
    const graph::Graph graph = graph::build_model({.network = "lenet", .num_classes = 4, .image = image}).value();
    for (const bool mean_image : {false, true}) {
      CHECK(exec::test::compare_pixels(*make_reference_backend(), graph,
                                       {.batch_size = 2, .inputs = {{.shape = image}}}, mean_image)
                .empty());
    }
  }
}

TEST_CASE("a batch of pixels is refused where floats are needed, and the reverse", "[exec]") {
  const Shape image = {1, 28, 28};
  const graph::Graph graph = graph::build_model({.network = "lenet", .image = image}).value();
  const exec::test::PixelBatch batch = exec::test::make_pixels(image, 2, 10, false, 1);
  Options options{.batch_size = 2, .inputs = {{.shape = image}}};
  const auto of_floats = make_reference_backend()->compile(graph, options).value();
  CHECK_THROWS_AS(of_floats->forward(batch.view(), no_wait), CheckFailed);
  options.inputs[0].normalisation = batch.normalisation;
  const auto of_pixels = make_reference_backend()->compile(graph, options).value();
  CHECK_THROWS_AS(of_pixels->forward(batch.floats().view(), no_wait), CheckFailed);
  exec::test::PixelBatch incomplete = batch;
  incomplete.mirrored.pop_back();
  CHECK_THROWS_AS(of_pixels->forward(incomplete.view(), no_wait), CheckFailed);
  options.inputs[0].normalisation = exec::test::make_pixels({3, 28, 28}, 1, 10, false, 1).normalisation;
  CHECK_THROWS_AS(make_reference_backend()->compile(graph, options), CheckFailed);
}
