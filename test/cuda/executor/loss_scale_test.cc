
#include "cases.h"
#include "exec/norm.h"
#include "graph/models/models.h"
#include "plain_runner.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::fill_parameters;
using exec::test::Values;

namespace {

struct Run {
  std::unique_ptr<Executor> executor;
  exec::test::HostBatch batch;

  explicit Run(Type type) {
    const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
    const Options options{.batch_size = 2, .inputs = {{.shape = {1, 28, 28}}}, .bucket_begin = {0, 4}, .dtype = type};
    executor = cuda::test::emulated_backend()->compile(graph, options).value();
    batch = make_batch({.name = "", .graph = graph, .image = {1, 28, 28}, .batch = 2}, Values::kFloats, 3);
    fill_parameters(executor->parameters(), Values::kFloats, 3);
  }
  std::vector<double> gradients(double scale) {
    executor->set_loss_scale({scale});
    REQUIRE(executor->forward(batch.view(), no_wait));
    REQUIRE(executor->backward(no_wait));
    const auto all = executor->parameters().all_gradients;
    return {all.begin(), all.end()};
  }
};

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

// Gradients must be those of the loss itself for every scale. The tolerance allows for float16, which changes the
// maxima in pooling. A scale that was not divided out would be an error of its whole size.
TEST_CASE("float16's gradients are divided by the loss scale again", "[cuda][exec]") {
  Run exact(Type::kFloat32), half(Type::kFloat16);
  const std::vector<double> truth = exact.gradients(1);
  for (const double scale : {1.0, 64.0, 1024.0}) {
    const std::vector<double> found = half.gradients(scale);
    INFO("scale " << scale);
    CHECK(normalised_error(floats(found), truth) <= 3e-2);
  }
}

TEST_CASE("a smaller scale avoids an overflow of float16", "[cuda][exec]") {
  Run half(Type::kFloat16);
  CHECK_FALSE(all_finite(half.gradients(0x1p24)));
  CHECK(all_finite(half.gradients(1)));
}

TEST_CASE("float32 and bfloat16 take no loss scale", "[cuda][exec]") {
  for (const Type type : {Type::kFloat32, Type::kBfloat16}) {
    Run run(type);
    CHECK(run.gradients(1) == run.gradients(0x1p24));
  }
}
