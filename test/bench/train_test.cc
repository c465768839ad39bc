// `bench train` on the CPU and, in the emulator of GPUs, on a GPU.
#include "bench/train.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::bench;
using dtrain::test::must;

namespace {

BenchTrainOptions small() {
  return {.network = "lenet", .batch_size = 2, .num_batches = 3, .num_warmup_batches = 1, .profile = true};
}

BenchTrainOptions on_gpu() {
  BenchTrainOptions options = small();
  options.gpu = 0;
  options.device_module = DTRAIN_EMULATED_MODULE;
  return options;
}

const Profile::Line* find(const Profile& profile, const std::string& node, const std::string& what) {
  const auto found = std::ranges::find_if(
      profile.lines, [&](const Profile::Line& line) { return line.node == node && line.what == what; });
  return found == profile.lines.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a profile of the CPU has each step of each node", "[bench]") {
  const BenchTrainResult result = must(bench_train(small()));
  CHECK(result.device == "cpu");
  CHECK_FALSE(result.isa.empty());
  REQUIRE(result.profile);
  const Profile::Line* line = find(*result.profile, "convolution0", "convolution");
  if (line == nullptr) line = find(*result.profile, "convolution0", "convolution forward");
  REQUIRE(line != nullptr);
  CHECK(line->flops == 2.0 * 2 * 20 * 24 * 24 * 25);
}

TEST_CASE("a network with dropout is measured in both phases", "[bench]") {
  for (const auto phase : {BenchTrainOptions::Phase::kTraining, BenchTrainOptions::Phase::kInference}) {
    const BenchTrainResult result = must(bench_train({.network = "vgg-11",
                                                      .batch_size = 2,
                                                      .image = {3, 32, 32},
                                                      .phase = phase,
                                                      .num_batches = 1,
                                                      .num_warmup_batches = 0}));
    CHECK(result.samples_per_s.median > 0);
  }
}

TEST_CASE("a profile of a GPU has each pass of each node, with its products and its bound", "[bench]") {
  const BenchTrainResult result = must(bench_train(on_gpu()));
  CHECK_THAT(result.device, Catch::StartsWith("gpu(0): "));
  CHECK(result.samples_per_s.median > 0);
  REQUIRE(result.profile);
  const Profile& profile = *result.profile;
  CHECK(profile.peak_flops_per_s > 0);
  CHECK(profile.peak_bytes_per_s > 0);
  for (const char* node : {"convolution0", "convolution1", "fullyconnected0", "fullyconnected1"}) {
    for (const char* what : {"forward", "backward"}) {
      INFO(node << ": " << what);
      const Profile::Line* line = find(profile, node, what);
      REQUIRE(line != nullptr);
      CHECK(line->least_s > 0);
      CHECK(line->mean_s >= line->least_s);
      CHECK(line->bytes > 0);
      CHECK(line->bound_s > 0);
    }
  }
  // The first layer computes no gradient by the images.
  const double first = 2.0 * 2 * 20 * 24 * 24 * 25, second = 2.0 * 2 * 50 * 8 * 8 * 20 * 25;
  CHECK(find(profile, "convolution0", "forward")->flops == first);
  CHECK(find(profile, "convolution0", "backward")->flops == first);
  CHECK(find(profile, "convolution1", "forward")->flops == second);
  CHECK(find(profile, "convolution1", "backward")->flops == 2 * second);
  REQUIRE(find(profile, "", "update") != nullptr);
  const auto json = nlohmann::json::parse(result.json());
  CHECK(json["device"] == result.device);
  CHECK(json["dtype"] == "float32");
  CHECK_FALSE(json.contains("isa"));
  CHECK(json["profile"]["steps"].size() == profile.lines.size());
  CHECK_THAT(result.text(), Catch::Contains("gpu(0): ") && Catch::Contains("convolution1"));
}

TEST_CASE("inference and other types are measured on a GPU", "[bench]") {
  BenchTrainOptions options = on_gpu();
  options.phase = BenchTrainOptions::Phase::kInference;
  const BenchTrainResult inference = must(bench_train(options));
  CHECK(find(*inference.profile, "fullyconnected1", "forward") != nullptr);
  CHECK(find(*inference.profile, "fullyconnected1", "backward") == nullptr);
  options = on_gpu();
  options.profile = false;
  options.dtype = Type::kBfloat16;
  CHECK(must(bench_train(options)).dtype == "bfloat16");
}

TEST_CASE("what cannot be measured is refused", "[bench]") {
  BenchTrainOptions options = small();
  options.dtype = Type::kFloat16;
  CHECK(bench_train(options).error().code == Code::kUsage);  // CPUs compute in float32
  options = on_gpu();
  options.bound = true;
  CHECK_THAT(bench_train(options).error().text(), Catch::Contains("leave out --gpus"));
  options = on_gpu();
  options.bound = false;
  options.device_module = "/none/module.so";
  CHECK(bench_train(options).error().code == Code::kDevice);
}
