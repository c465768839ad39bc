// Jobs in which the loss of one worker is not finite in one step.

#include <fmt/ranges.h>
#include <filesystem>

#include "cluster/lenet_run.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr size_t kPixels = size_t{28} * 28;
constexpr size_t kBatch = 8;
constexpr size_t kBadStep = 2;

// Two shares of `steps` batches each. All images are black, so that a network learns only how frequent each label is;
// but the last share has a white one in step `bad`.
std::vector<Image> two_shares(const std::vector<size_t>& steps, std::optional<size_t> bad) {
  std::vector<Image> images;
  for (const size_t worker : {0, 1}) {
    for (const size_t step : steps) {
      for (size_t i = 0; i < kBatch; i++) {
        const bool is_white = worker == 1 && step == bad && i == 3;
        const size_t label = (step * step + worker * i) % 10;
        images.push_back({std::string(kPixels, is_white ? '\xff' : '\0'), static_cast<char>(label)});
      }
    }
  }
  return images;
}

// Dividing by the standard deviation turns a white pixel into 1e38.
Ended train(const TempDir& dir, const std::string& data, const std::vector<std::string>& flags) {
  const std::vector<std::string> command =
      command_line(dtrain_program(), "-n 2 --network mlp --data-dir", dir.path(data),
                   "--rgb-std 1e-38 --shuffle 0 --lr 0.05 --momentum 0.9 --wd 0.01 --num-epochs 1 --seed 5 "
                   "--threads 1 --run-dir",
                   dir.path("run"), "--batch-size", std::to_string(kBatch), flags);
  std::filesystem::remove_all(dir.path("run"));
  return run(command, {.deadline_s = 60, .directory = dir.path(), .environment = {}});
}

std::vector<NamedArray> weights_of(const TempDir& dir) {
  return must(read_ndarray_file(dir.path("run") + "/mlp-0001.params"));
}

}  // namespace

// Momentum and weight decay move the weights even without a gradient, so a step that is made with zeros would show.
TEST_CASE("a step whose loss is not finite on one worker is left out by all, to the bit", "[schemes]") {
  const TempDir dir;
  write_mnist(dir.path("whole"), two_shares({0, 1, kBadStep, 3, 4}, kBadStep));
  write_mnist(dir.path("without"), two_shares({0, 1, 3, 4}, std::nullopt));
  const std::vector<std::vector<std::string>> stores = {
      {"-s", "2", "--kv-store", "dist_sync", "--deterministic", "1"},
      {"-s", "2", "--kv-store", "dist_sync", "--deterministic", "1", "--update-on", "worker"},
      {"--kv-store", "allreduce"}};
  for (std::vector<std::string> store : stores) {
    INFO(fmt::format("{}", fmt::join(store, " ")));
    const bool has_servers = store[0] == "-s";
    store.insert(store.end(), {"--on-nan", "skip"});
    const Ended whole = train(dir, "whole", store);
    INFO(whole.output);
    REQUIRE(whole.code == 0);
    const std::vector<NamedArray> weights = weights_of(dir);
    CHECK_THAT(whole.output, Catch::Contains("step 2 is skipped, because the loss is not finite"));
    const std::string others = "all workers skip step 2, because the gradient of another worker is not finite";
    CHECK((whole.output.find(others) != std::string::npos) == has_servers);
    const Ended without = train(dir, "without", store);
    INFO(without.output);
    REQUIRE(without.code == 0);
    CHECK(without.output.find("left out") == std::string::npos);
    CHECK(same_bits(weights, weights_of(dir)));
  }
  const Ended failed = train(dir, "whole", {"-s", "2", "--kv-store", "dist_sync"});
  INFO(failed.output);
  CHECK(failed.code == 1);
  CHECK_THAT(failed.output, Catch::Contains("step 2, rank 1: the loss is not finite, first in layer"));
}
