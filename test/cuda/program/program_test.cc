// The program with --gpus: the GPUs are emulated, everything else is as its users have it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {
namespace {

using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

// A directory with a small set of images.
class Place {
 public:
  Place() {
    const Ended drawn = dtrain({"data", "synth", "--out", "data", "--count", "160", "--size", "16"});
    INFO(drawn.output);
    REQUIRE(drawn.code == 0);
  }

  [[nodiscard]] Ended dtrain(Words arguments, Words environment = {}) const {
    arguments.insert(arguments.begin(), DTRAIN_EXE);
    return run(std::move(arguments),
               {.deadline_s = kDeadline_s, .directory = directory_.path(), .environment = std::move(environment)});
  }
  // Trains for one epoch in the run directory `run`.
  [[nodiscard]] Ended train(const std::string& run, const Words& more) const {
    Words arguments = {"--network",    "mlp", "--image-shape", "3,16,16", "--data-dir", "data", "--run-dir", run,
                       "--num-epochs", "1",   "--batch-size",  "16",      "--lr",       "0.01", "--seed",    "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return dtrain(arguments);
  }

 private:
  static constexpr double kDeadline_s = 120;

  TempDir directory_;
};

}  // namespace

// With NCCL a step is a graph that contains the group's sums, which NCCL waits for when the group ends.
TEST_CASE("a job on GPUs trains and ends, in every store and type", "[cuda][program]") {
  const Place place;
  size_t runs = 0;
  for (const Words& way : {Words{"--gpus", "0"},
                           {"--gpus", "0,1", "--kv-store", "nccl"},
                           {"--gpus", "0,1,2", "--kv-store", "nccl", "--dtype", "float16"},
                           {"--gpus", "0,1", "--kv-store", "nccl", "--dtype", "bfloat16"},
                           {"--gpus", "0,1", "--kv-store", "device"},
                           {"--gpus", "0", "-n", "2", "--kv-store", "nccl_allreduce"},
                           {"--gpus", "0,1", "-n", "2", "-s", "1", "--kv-store", "dist_device_sync"},
                           {"--gpus", "0", "-n", "2", "-s", "1", "--kv-store", "dist_sync"}}) {
    const Ended ended = place.train(fmt::format("run{}", runs++), way);
    INFO(fmt::format("{}", fmt::join(way, " ")) << "\n" << ended.output);
    CHECK(ended.code == 0);
    CHECK_THAT(ended.output, Contains("Validation-accuracy") && Contains("Finished after 1 epoch"));
  }
}

TEST_CASE("a worker with GPUs that is killed ends the job, which names it", "[cuda][program]") {
  const Place place;
  size_t runs = 0;
  for (const Words& way : {Words{"--gpus", "0", "--kv-store", "nccl_allreduce"},
                           {"--gpus", "0,1", "--kv-store", "nccl_allreduce"},
                           {"--gpus", "0,1", "--kv-store", "nccl_allreduce", "--dtype", "float16"},
                           {"--gpus", "0,1", "-s", "1", "--kv-store", "dist_device_sync"}}) {
    Words more = way;
    more.insert(more.end(), {"-n", "2", "--inject", "kill=worker:1@step:4"});
    const Ended ended = place.train(fmt::format("run{}", runs++), more);
    INFO(fmt::format("{}", fmt::join(way, " ")) << "\n" << ended.output);
    CHECK(ended.code != 0);
    CHECK_FALSE(ended.timed_out);
    CHECK_THAT(ended.output, Contains("worker 1 on ") && Contains("was killed by signal 9") &&
                                 Contains("worker 0: error [peer lost] worker 1 was lost"));
  }
}

TEST_CASE("a trained model is computed by a GPU, with the results of the CPU", "[cuda][program]") {
  const Place place;
  REQUIRE(place.train("run", {}).code == 0);
  const auto scored = [&](const Words& more) {
    Words arguments = {"score", "--model", "run", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = place.dtrain(arguments);
    INFO(ended.output);
    REQUIRE(ended.code == 0);
    return nlohmann::json::parse(ended.output.substr(ended.output.find('{')));
  };
  const nlohmann::json on_cpu = scored({}), on_gpu = scored({"--gpus", "1"});
  CHECK(on_gpu["accuracy"] == on_cpu["accuracy"]);
  CHECK(on_gpu["images"] == on_cpu["images"]);

  const Ended predicted = place.dtrain({"predict", "--model", "run", "--gpus", "0", "data/test.rec"});
  INFO(predicted.output);
  CHECK(predicted.code == 0);
  const Ended several = place.dtrain({"score", "--model", "run", "--gpus", "0,1"});
  CHECK(several.code == 2);
  CHECK_THAT(several.output, Contains("--gpus 0,1: a trained model is computed on one GPU"));
}

// Plain loops have no plans, so this shows only the settings that the module gets (plain_convolutions.cc).
TEST_CASE("the module gets the files of plans and --deterministic; a resumed run names the same file",
          "[cuda][program]") {
  const Place place;
  const auto line_of = [](const Ended& ended) {
    INFO(ended.output);
    CHECK(ended.code == 0);
    const size_t begin = ended.output.find("plans: deterministic");
    REQUIRE(begin != std::string::npos);
    return ended.output.substr(begin, ended.output.find('\n', begin) - begin);
  };
  CHECK_THAT(line_of(place.train("run", {"--gpus", "0"})), Contains("deterministic false, cache '") &&
                                                               Contains("/cudnn-plans.json'") &&
                                                               Contains("run 'run/cudnn-plans-0.json', resumed ''"));
  CHECK_THAT(line_of(place.dtrain({"score", "--model", "run", "--gpus", "0"})),
             Contains("deterministic true") && Contains("run '', resumed ''"));
  CHECK_THAT(
      line_of(place.dtrain({"--resume", "run", "--num-epochs", "2", "--deterministic", "1"})),
      Contains("deterministic true") && Contains("run/cudnn-plans-0.json', resumed '") && !Contains("resumed ''"));
}

TEST_CASE("inference is measured on a GPU in DLBS's way", "[cuda][program]") {
  const Place place;
  const Ended ended = place.dtrain({"bench", "dlbs", "--model", "alexnet", "--phase", "inference", "--gpus", "0",
                                    "--replica-batch", "1", "--num-batches", "1", "--num-warmup-batches", "0"});
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.output, Contains("__results.throughput__"));
}

TEST_CASE("a GPU that does not exist is named with the number of those that do", "[cuda][program]") {
  const Ended ended = Place().train("run", {"--gpus", "4"});
  CHECK(ended.code == 8);
  CHECK_THAT(ended.output, Contains("there is no GPU 4: this process can use the GPUs 0 to 3"));
}

TEST_CASE("a GPU that is too old is refused before the run", "[cuda][program]") {
  const Ended ended = Place().dtrain(
      {"--network", "mlp", "--image-shape", "3,16,16", "--data-dir", "data", "--gpus", "1"}, {"DTRAIN_EMULATED_SM=75"});
  CHECK(ended.code == 8);
  CHECK_THAT(ended.output, Contains("opening GPU 1") && Contains("(emulated GPU, sm_75) is older than this program "
                                                                 "supports: use a GPU of sm_80 or later"));
}

TEST_CASE("the memory of a GPU is predicted on a host without one", "[cuda][program]") {
  const Place place;
  const auto dry_run = [&](const char* batch) {
    return place.dtrain({"--network", "resnet", "--num-layers", "20", "--image-shape", "3,28,28", "--data-dir", "data",
                         "--gpus", "0", "--dtype", "float16", "--dry-run", "--batch-size", batch},
                        {"DTRAIN_EMULATED_GPUS=0"});
  };
  const Ended small = dry_run("16"), large = dry_run("64");
  INFO(small.output);
  CHECK(small.code == 0);
  CHECK_THAT(small.output, Contains("this host cannot use --gpus: there is no GPU") &&
                               Contains("memory of a GPU with 16 images: weights, gradients and statistics ") &&
                               Contains(", optimizer ") && Contains(" for each image"));
  CHECK_THAT(large.output, Contains("memory of a GPU with 64 images"));
}

}  // namespace dtrain::test
