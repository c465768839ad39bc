
#include "cases.h"
#include "cuda/executor/segment.h"
#include "emulator.h"
#include "graph/models/models.h"
#include "plain_runner.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::fill_parameters;
using exec::test::Values;

namespace {

size_t count(const std::vector<cuda::emulator::Record>& records, const std::string& name) {
  return static_cast<size_t>(std::ranges::count_if(records, [&](const auto& r) { return r.name == name; }));
}

// The number of graph launches in one step, and of all launches.
struct Launches {
  size_t graphs = 0, all = 0;
};
Launches launches_of_step(Executor& executor, const exec::test::HostBatch& batch) {
  const cuda::emulator::Session session;
  REQUIRE(executor.forward(batch.view(), no_wait));
  REQUIRE(executor.backward(no_wait));
  return {count(session.records(), "graph"), session.records().size()};
}

}  // namespace

// With one bucket each pass is one graph; with several there is one graph for each part between synchronizations.
TEST_CASE("the second step is captured, later ones replay it", "[cuda][exec]") {
  const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  const auto batch = make_batch({.name = "", .graph = graph, .image = {1, 28, 28}, .batch = 2}, Values::kFloats, 1);
  for (const std::vector<size_t>& buckets : {std::vector<size_t>{0}, {0, 2, 4}}) {
    auto executor = cuda::test::emulated_backend()
                        ->compile(graph, {.batch_size = 2, .inputs = {{.shape = {1, 28, 28}}}, .bucket_begin = buckets})
                        .value();
    fill_parameters(executor->parameters(), Values::kFloats, 1);
    const Launches first = launches_of_step(*executor, batch);
    const std::vector<float> gradients(executor->parameters().all_gradients.begin(),
                                       executor->parameters().all_gradients.end());
    const Launches second = launches_of_step(*executor, batch);
    const Launches third = launches_of_step(*executor, batch);
    CHECK(first.graphs == 0);
    // One more graph, because the images are converted to the device's layout before the first bucket's weights are
    // needed.
    CHECK(second.graphs == 2 * buckets.size() + 1);
    CHECK(third.graphs == second.graphs);
    CHECK(third.all < first.all);
    CHECK(std::ranges::equal(gradients, executor->parameters().all_gradients));
  }
}

TEST_CASE("an operation that cannot be captured is a DeviceError with the reason", "[cuda][exec]") {
  const cuda::CudaStream stream = cuda::make_stream();
  cuda::Segment segment({[](cudaStream_t s) { DT_CUDA(cudaStreamSynchronize(s)); }});
  segment.run(stream.get());
  CHECK_THROWS_MATCHES(segment.run(stream.get()), cuda::DeviceError,
                       Catch::Matchers::Predicate<cuda::DeviceError>([](const cuda::DeviceError& error) {
                         return std::string(error.what()).find("cudaErrorStreamCaptureUnsupported") !=
                                std::string::npos;
                       }));
  // The stream can be used again.
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
}
