// The work that one step of lenet gives to the device: kernels and plans in their order, with the bytes that they move.
// The golden file is reviewed as a diff when it changes; DTRAIN_REWRITE_GOLDEN=1 rewrites it.
#include <cstdlib>
#include <map>
#include <set>

#include "base/file.h"
#include "cases.h"
#include "cuda/optimizer.h"
#include "emulator.h"
#include "graph/models/models.h"
#include "pixels.h"
#include "plain_runner.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

std::string text_of(const std::vector<cuda::emulator::Record>& records) {
  std::string text;
  for (const auto& r : records) {
    const uint32_t blocks = r.grid.x * r.grid.y * r.grid.z, threads = r.block.x * r.block.y * r.block.z;
    const bool kernel = threads > 1;  // copies and plans have no thread count; only their bytes are known
    const char* unit = r.name == "graph" ? "works" : "bytes";
    text += fmt::format("  {:10} {}  {}{}\n", r.bytes, unit, r.name,
                        kernel ? fmt::format("  {} x {} threads", blocks, threads) : std::string());
  }
  return text;
}

// Only the forward pass, because backward does not depend on the form of the images.
std::string forward_of_pixels(Type type) {
  const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  const auto batch = exec::test::make_pixels({1, 28, 28}, 64, 10, true, 1);
  const Options options{
      .batch_size = 64, .inputs = {{{1, 28, 28}, batch.normalisation}}, .bucket_begin = {0, 4}, .dtype = type};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  const cuda::emulator::Session session;
  REQUIRE(executor->forward(batch.view(), no_wait));
  return fmt::format("forward of pixels in {}\n{}", type_name(type), text_of(session.records()));
}

std::string step_text(Type type) {
  const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  const Options options{.batch_size = 64, .inputs = {{.shape = {1, 28, 28}}}, .bucket_begin = {0, 4}, .dtype = type};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  const auto batch =
      make_batch({.name = "", .graph = graph, .image = {1, 28, 28}, .batch = 64}, exec::test::Values::kFloats, 1);
  std::string text;
  {
    const cuda::emulator::Session session;
    REQUIRE(executor->forward(batch.view(), no_wait));
    text += fmt::format("forward in {}\n{}", type_name(type), text_of(session.records()));
  }
  const cuda::emulator::Session session;
  REQUIRE(executor->backward(no_wait));
  return text + fmt::format("backward in {}\n{}", type_name(type), text_of(session.records()));
}

// The third step, which is captured, with the parameters on the device, and the fifth step, which replays it.
std::string captured_text(Type type) {
  const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  const Options options{
      .batch_size = 64, .inputs = {{.shape = {1, 28, 28}}}, .dtype = type, .parameters_on_device = true};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  const auto optimizer = cuda::make_device_optimizer(*executor, {}).value();
  std::vector<std::vector<optim::LearnedArray>> arrays(1);
  for (const ParameterSpan& p : executor->device_parameters().parameters)
    arrays[0].push_back({{}, p.weight, p.gradient});
  optimizer->bind(arrays);
  const auto batch =
      make_batch({.name = "", .graph = graph, .image = {1, 28, 28}, .batch = 64}, exec::test::Values::kFloats, 1);
  std::string text;
  for (const char* name : {"", "", "captured step", "", "replayed step"}) {
    const cuda::emulator::Session session;
    REQUIRE(executor->forward(batch.view(), no_wait));
    REQUIRE(executor->backward([&](size_t bucket) -> Result<> {
      optimizer->search(bucket);
      optimizer->update(bucket, {});
      return {};
    }));
    REQUIRE(executor->finish());
    if (*name != 0) text += fmt::format("{} in {}\n{}", name, type_name(type), text_of(session.records()));
  }
  return text;
}

// What each of three steps copies from the host to the device, in bytes, and the results of the last one.
struct Copied {
  std::vector<int64_t> bytes;
  std::vector<float> results;
};
Copied copied_in_steps(bool on_device, bool same_batch) {
  const graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  const Options options{
      .batch_size = 8, .inputs = {{.shape = {1, 28, 28}}}, .parameters_on_device = on_device, .same_batch = same_batch};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  const auto batch =
      make_batch({.name = "", .graph = graph, .image = {1, 28, 28}, .batch = 8}, exec::test::Values::kFloats, 1);
  Copied copied;
  for (int step = 0; step < 3; step++) {
    const cuda::emulator::Session session;
    REQUIRE(executor->forward(batch.view(), no_wait));
    REQUIRE(executor->backward(no_wait));
    REQUIRE(executor->finish());
    int64_t& bytes = copied.bytes.emplace_back(0);
    for (const auto& r : session.records()) bytes += r.name == "copy to device" ? r.bytes : 0;
  }
  const std::span<const float> results = executor->result(0);
  copied.results.assign(results.begin(), results.end());
  return copied;
}

// Threads in a row of a map for each kernel of a step that reads or writes maps row by row.
std::map<std::string, std::set<uint32_t>> threads_in_rows(const std::string& network, const Shape& image) {
  const graph::Graph graph = graph::build_model({.network = network, .num_classes = 8, .image = image}).value();
  const Options options{.batch_size = 2, .inputs = {{.shape = image}}, .dtype = Type::kFloat16};
  auto executor = cuda::test::emulated_backend()->compile(graph, options).value();
  const auto batch =
      make_batch({.name = "", .graph = graph, .image = image, .batch = 2}, exec::test::Values::kFloats, 1);
  const cuda::emulator::Session session;
  REQUIRE(executor->forward(batch.view(), no_wait));
  REQUIRE(executor->backward(no_wait));
  std::map<std::string, std::set<uint32_t>> threads;
  for (const auto& r : session.records()) threads[r.name].insert(r.grid.x * r.block.x);
  return threads;
}

}  // namespace

// Operands that are absent, and parameters that begin 12 bytes past a multiple of 16 because a batch norm of 3 channels
// comes before them, once made most kernels of a ResNet move single numbers, at half the speed.
TEST_CASE("rows of 16-bit maps are moved 16 bytes at a time", "[cuda][exec][networks]") {
  auto threads = threads_in_rows("resnet-20", {3, 28, 28});
  CHECK(threads["batch_norm_statistics"] == std::set<uint32_t>{16 / 8, 32 / 8, 64 / 8, 3});  // 3: of the images
  // The normalized images have 4 channels, because the convolution after them reads 4.
  CHECK(threads["batch_norm_apply"] == std::set<uint32_t>{16 / 8, 32 / 8, 64 / 8, 4});
  for (const char* name : {"batch_norm_backward_sums", "batch_norm_backward_apply"}) {
    INFO(name);
    CHECK(threads[name] == std::set<uint32_t>{16 / 8, 32 / 8, 64 / 8});
  }
  CHECK(threads["average_pooling"] == std::set<uint32_t>{64 / 8});
  CHECK(threads["average_pooling_backward"] == std::set<uint32_t>{64 / 8});
}

TEST_CASE("the launches of a step of lenet are those of lenet_step.txt", "[cuda][exec][networks]") {
  const std::string text =
      "# One step of lenet, batch 64, in two buckets, as test/cuda/executor/launches_test.cc records it without a "
      "GPU.\n" +
      step_text(Type::kFloat32) + step_text(Type::kFloat16) + forward_of_pixels(Type::kFloat16) +
      "# Likewise with the parameters on the device, in one bucket.\n" + captured_text(Type::kFloat16);
  const std::string path = std::string(DTRAIN_CUDA_EXECUTOR_TEST_DIR) + "/lenet_step.txt";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, text));
  CHECK(dtrain::test::must(read_file(path)) == text);
}

// --synthetic-on gpu. With the parameters on the device, nothing is left to copy.
TEST_CASE("with one batch for all steps, only the first step copies it to the device", "[cuda][exec][networks]") {
  constexpr int64_t kBatchBytes = 8 * (28 * 28 + 1) * static_cast<int64_t>(sizeof(float));
  for (const bool on_device : {false, true}) {
    INFO("parameters on the device: " << on_device);
    const Copied always = copied_in_steps(on_device, false), once = copied_in_steps(on_device, true);
    CHECK(once.bytes[0] == always.bytes[0]);
    for (const size_t step : {1U, 2U}) CHECK(once.bytes[step] == always.bytes[step] - kBatchBytes);
    if (on_device) CHECK(once.bytes[2] == 0);
    CHECK(once.results == always.results);
  }
}
