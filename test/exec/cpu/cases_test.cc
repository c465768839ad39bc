
#include "cases.h"
#include "exec/check.h"
#include "graph/models/models.h"
#include "pixels.h"
#include "steps.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using test::Case;
using test::Values;

namespace {

Result<> ignore(size_t) {
  return {};
}

CheckReport check_case(const Case& c, Options options, Values values, double factor) {
  options.keep_all = true;
  auto executor = make_cpu_backend()->compile(c.graph, options).value();
  fill_parameters(executor->parameters(), values, 2);
  const test::HostBatch batch = make_batch(c, values, 1);
  return check_against_reference(c.graph, options, *executor, batch.view(), {.tolerance_factor = factor}).value();
}

// Small whole numbers make all sums exact, whatever their order: oneDNN, OpenBLAS and our own kernels give the same
// bits as the reference.
void check_integers(int threads) {
  for (const Case& c : test::operator_cases()) {
    INFO(c.name);
    Options options = case_options(c);
    options.threads = threads;
    const CheckReport report = check_case(c, options, Values::kIntegers, c.exact ? 0 : 1);
    CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
  }
}

}  // namespace

TEST_CASE("integers give the bits of the reference", "[exec][cpu]") {
  check_integers(1);
}

TEST_CASE("integers give the bits of the reference, several threads", "[exec][cpu][slow]") {
  for (const int threads : {2, 3}) check_integers(threads);
}

// Floats agree within what rounding explains (check.h), which has a separate tolerance for Winograd.
TEST_CASE("floats agree with the reference", "[exec][cpu]") {
  for (const Case& c : test::operator_cases()) {
    INFO(c.name);
    for (const bool winograd : {false, true}) {
      Options options = case_options(c);
      options.winograd = winograd;
      const CheckReport report = check_case(c, options, Values::kFloats, 1);
      CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
    }
  }
}

// Without keep_all nodes are fused, and memory is reused and written in place. All gradients, probabilities and
// statistics must equal those of the run node by node, up to rounding. Two steps, because the second one finds used
// memory.
TEST_CASE("fusion and shared memory change nothing", "[exec][cpu]") {
  for (const Case& c : test::operator_cases()) {
    INFO(c.name);
    Options options = case_options(c);
    auto apart = make_cpu_backend()->compile(c.graph, options).value();
    options.keep_all = false;
    auto fused = make_cpu_backend()->compile(c.graph, options).value();
    for (const uint64_t seed : {1, 2}) {
      const test::HostBatch batch = make_batch(c, Values::kFloats, seed);
      for (Executor* executor : {apart.get(), fused.get()}) {
        fill_parameters(executor->parameters(), Values::kFloats, seed);
        REQUIRE(executor->forward(batch.view(), no_wait));
        REQUIRE(executor->backward(ignore));
      }
      for (size_t i = 0; i < apart->result(0).size(); i++) {
        CHECK(fused->result(0)[i] == Approx(apart->result(0)[i]).epsilon(1e-5).margin(1e-6));
      }
      const ParameterView &a = apart->parameters(), &b = fused->parameters();
      for (size_t p = 0; p < a.parameters.size(); p++) {
        INFO("gradient of " << a.parameters[p].name);
        double difference = 0, norm = 1e-6;
        for (size_t i = 0; i < a.parameters[p].gradient.size(); i++) {
          difference =
              std::max<double>(difference, std::abs(a.parameters[p].gradient[i] - b.parameters[p].gradient[i]));
          norm = std::max<double>(norm, std::abs(a.parameters[p].gradient[i]));
        }
        CHECK(difference <= 1e-4 * norm);
      }
      for (size_t s = 0; s < a.statistics.size(); s++) {
        for (size_t i = 0; i < a.statistics[s].weight.size(); i++) {
          CHECK(b.statistics[s].weight[i] == Approx(a.statistics[s].weight[i]).epsilon(1e-5).margin(1e-6));
        }
      }
    }
  }
}

TEST_CASE("on the CPU the terms of a shared weight's gradient are added in the order of backward", "[exec][cpu]") {
  const auto backend = make_cpu_backend();
  CHECK(test::sum_of_terms(*backend, {0x1p-24, 0x1p-24, 1}) == 1);  // each small term is rounded away
  CHECK(test::sum_of_terms(*backend, {1, 0x1p-24, 0x1p-24}) == 1 + 0x1p-23F);
  // More terms than one kernel adds.
  CHECK(test::sum_of_terms(*backend, std::vector<double>(20, 1)) == 20);
  std::vector<double> many(19, 0x1p-24);
  many.push_back(1);
  CHECK(test::sum_of_terms(*backend, many) == 1);
}

TEST_CASE("on the CPU pixels give the same bits as the corresponding numbers", "[exec][cpu]") {
  for (const int threads : {1, 2}) {
    for (const int64_t channels : {1, 3, 4}) {
      const Shape image = {channels, 28, 28};
      const graph::Graph graph = graph::build_model({.network = "lenet", .image = image}).value();
      const Options options{.batch_size = 5, .inputs = {{.shape = image}}, .threads = threads};
      for (const bool mean_image : {false, true}) {
        CHECK(test::compare_pixels(*make_cpu_backend(), graph, options, mean_image).empty());
      }
    }
  }
}
