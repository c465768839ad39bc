// The program with --gpus: the GPUs are emulated, everything else is as its users have it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"
#include "support/process_of_job.h"
#include "support/temp_dir.h"

namespace dtrain::test {
namespace {

using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

// A directory with a small set of images.
class Place {
 public:
  static constexpr double kDeadline_s = 120;

  Place() {
    const Ended drawn = dtrain({"data", "synth", "--out", "data", "--count", "160", "--size", "16"});
    INFO(drawn.output);
    REQUIRE(drawn.code == 0);
  }

  [[nodiscard]] Ended dtrain(Words arguments, Words environment = {}) const {
    arguments.insert(arguments.begin(), DTRAIN_EXE);
    return run(std::move(arguments), options(std::move(environment)));
  }
  // Trains for one epoch in the run directory `run`.
  [[nodiscard]] Ended train(const std::string& run, const Words& more) const { return dtrain(training(run, more)); }
  [[nodiscard]] Process begin(const std::string& run, const Words& more) const {
    Words arguments = training(run, more);
    arguments.insert(arguments.begin(), DTRAIN_EXE);
    return Process(std::move(arguments), options());
  }
  static Words training(const std::string& run, const Words& more) {
    Words arguments = {"--network",    "mlp", "--image-shape", "3,16,16", "--data-dir", "data", "--run-dir", run,
                       "--num-epochs", "1",   "--batch-size",  "16",      "--lr",       "0.01", "--seed",    "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void write(const std::string& file, const std::string& text) const {
    REQUIRE(write_file_atomic(directory_.path(file), text));
  }
  [[nodiscard]] std::string text_of(const std::string& file) const { return must(read_file(directory_.path(file))); }

 private:
  // The emulated GPUs of other tests are not the GPUs of this one, although they have the same bus ids.
  [[nodiscard]] ProcessOptions options(Words environment = {}) const {
    environment.push_back("XDG_RUNTIME_DIR=" + directory_.path());
    return {.deadline_s = kDeadline_s, .directory = directory_.path(), .environment = std::move(environment)};
  }

  TempDir directory_;
};

// The numbers of the GPUs that a log names, such as "023".
std::string gpus_in(const std::string& log) {
  std::string gpus;
  for (int gpu = 0; gpu < 4; gpu++) {
    if (log.find(fmt::format("GPU {}: emulated GPU", gpu)) != std::string::npos) gpus += std::to_string(gpu);
  }
  return gpus;
}

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

TEST_CASE("--gpus takes ranges, and all GPUs of the host", "[cuda][program]") {
  const Place place;
  const auto used = [&](const std::string& run, const Words& way) {
    const Ended ended = place.train(run, way);
    INFO(ended.output);
    CHECK(ended.code == 0);
    CHECK_THAT(ended.output, Contains("Finished after 1 epoch"));
    return gpus_in(ended.output);
  };
  CHECK(used("run0", {"--gpus", "1-2"}) == "12");
  CHECK(used("run1", {"--gpus", "all", "--work-load-list", "1,1,1,2"}) == "0123");
  CHECK(used("run2", {"--gpus", "all:2/2", "--kv-store", "nccl"}) == "23");
  // A run that is resumed uses all GPUs of its host again, not the numbers of those that the first host had.
  const Ended resumed = place.dtrain({"--resume", "run1", "--num-epochs", "2", "--dry-run"});
  INFO(resumed.output);
  CHECK_THAT(resumed.output, Contains("--gpus all on this host: 0,1,2,3"));
}

TEST_CASE("the workers of one host divide all of its GPUs", "[cuda][program]") {
  const Place place;
  const Words job = {"-n", "2", "-s", "1", "--gpus", "all"};
  const Ended ended = place.train("run", job);
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(gpus_in(place.text_of("run/worker-0.log")) == "01");
  CHECK(gpus_in(place.text_of("run/worker-1.log")) == "23");
  Words dry = job;
  dry.emplace_back("--dry-run");
  const Ended shown = place.train("dry", dry);
  INFO(shown.output);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.output, Contains("--gpus all:1/2 --advertise") && Contains("--gpus all:2/2 --advertise") &&
                               Contains("--gpus all:1/2 on this host: 0,1") &&
                               Contains("memory of a worker with 2 devices"));
  const Ended too_many = place.train("many", {"-n", "5", "-s", "1", "--gpus", "all"});
  INFO(too_many.output);
  CHECK(too_many.code == 2);
  CHECK_THAT(too_many.output, Contains("this process can use 4 GPUs, which cannot be divided into 5 parts"));
}

TEST_CASE("a host file gives the workers of a host all of its GPUs", "[cuda][program]") {
  const Place place;
  place.write("hosts", "here gpus=auto\n");
  const Words job = {"-n", "3", "-s", "1", "-H", "hosts"};
  Words dry = job, local = job;
  dry.emplace_back("--dry-run");
  const Ended shown = place.train("dry", dry);
  INFO(shown.output);
  CHECK_THAT(shown.output, Contains("--gpus all:1/3") && Contains("--gpus all:3/3"));
  local.insert(local.end(), {"--launcher", "local"});
  const Ended ended = place.train("run", local);
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(gpus_in(place.text_of("run/worker-0.log")) == "0");
  CHECK(gpus_in(place.text_of("run/worker-2.log")) == "23");
}

TEST_CASE("--gpus all is refused if the loads do not fit, or if one GPU is needed", "[cuda][program]") {
  const Place place;
  const Ended loads = place.train("run", {"--gpus", "all", "--work-load-list", "1,1"});
  CHECK(loads.code == 2);
  CHECK_THAT(loads.output, Contains("--work-load-list 1,1: there are 2 numbers for 4 devices"));
  REQUIRE(place.train("run", {"--overwrite"}).code == 0);
  for (const Words& tool : {Words{"score", "--model", "run"}, {"predict", "--model", "run", "data/test.rec"}}) {
    Words all = tool;
    all.insert(all.end(), {"--gpus", "all"});
    const Ended several = place.dtrain(all);
    INFO(several.output);
    CHECK(several.code == 2);
    CHECK_THAT(several.output,
               Contains("--gpus all: a trained model is computed on one GPU, and this process can use 4; "
                        "give one number, such as --gpus 0"));
    all.back() = "all:1/4";
    CHECK(place.dtrain(all).code == 0);
  }
  const Ended bench = place.dtrain({"bench", "train", "--network", "mlp", "--gpus", "all"});
  CHECK(bench.code == 2);
  CHECK_THAT(bench.output, Contains("bench train measures one GPU, and this process can use 4"));
}

// Two processes may share a GPU, so this is not an error.
TEST_CASE("a worker warns of another process that uses its GPU", "[cuda][program]") {
  const Place place;
  const std::string shared = "is also used by process ";
  const auto warnings = [&](const std::string& log) {
    size_t count = 0;
    for (size_t at = log.find(shared); at != std::string::npos; at = log.find(shared, at + 1)) count++;
    return count;
  };
  const Ended alone = place.train("alone", {"--gpus", "0,1"});
  CHECK(warnings(alone.output) == 0);
  const Ended apart = place.train("apart", {"-n", "2", "-s", "1", "--gpus", "all"});
  CHECK(warnings(apart.output + place.text_of("apart/worker-1.log")) == 0);
  const Ended together = place.train("together", {"-n", "2", "-s", "1", "--gpus", "1"});
  INFO(together.output);
  CHECK(together.code == 0);
  const size_t of_job =
      warnings(place.text_of("together/worker-0.log")) + warnings(place.text_of("together/worker-1.log"));
  CHECK(of_job >= 1);
  CHECK(of_job <= 2);  // both workers see the other one, if they begin at the same time

  Process first = place.begin("first", {"--gpus", "2", "--num-epochs", "100000"});
  REQUIRE(first.wait_for_output("Epoch[0] Train-accuracy", 60));
  const Ended second = place.train("second", {"--gpus", "1-3"});
  INFO(second.output);
  CHECK(second.code == 0);
  CHECK_THAT(second.output, Contains(fmt::format("GPU 2 is also used by process {} of this user on ", first.pid())));
  CHECK(warnings(second.output) == 1);
  first.signal(SIGKILL);
  REQUIRE(first.wait(10).signal == SIGKILL);
  const Ended third = place.train("third", {"--gpus", "2"});
  CHECK(third.code == 0);
  CHECK(warnings(third.output) == 0);
}

TEST_CASE("doctor checks all GPUs that the workers of a host divide", "[cuda][program]") {
  const Place place;
  const Ended checked = place.dtrain({"doctor", "-n", "2", "-s", "1", "--gpus", "all", "--data-dir", "data"});
  INFO(checked.output);
  CHECK_THAT(checked.output, Contains("gpu(0) emulated GPU") && Contains("gpu(3) emulated GPU"));
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

TEST_CASE("a job on GPUs whose worker is killed trains to its end after a restart", "[cuda][program]") {
  const Place place;
  size_t runs = 0;
  for (const Words& way : {Words{"--gpus", "0", "--kv-store", "nccl_allreduce"},
                           {"--gpus", "0,1", "--kv-store", "nccl_allreduce", "--dtype", "float16"}}) {
    const std::string run_dir = fmt::format("run{}", runs++);
    Words more = way;
    more.insert(more.end(), {"-n", "2", "--num-epochs", "15", "--max-restarts", "3"});
    Process launcher = place.begin(run_dir, more);
    const bool saved = launcher.wait_for_output("Saved checkpoint", Place::kDeadline_s);
    const pid_t worker = process_of_job(run_dir, "worker", 1);
    const bool was_killed = worker != 0 && ::kill(worker, SIGKILL) == 0;
    const Ended ended = launcher.wait(Place::kDeadline_s);
    INFO(fmt::format("{}", fmt::join(way, " ")) << "\n" << ended.output);
    CHECK(saved);
    CHECK(was_killed);
    CHECK(ended.code == 0);
    CHECK_THAT(ended.output, Contains("dtrain: the job was restarted once") && Contains("Finished after 15 epochs"));
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

TEST_CASE("a benchmark of DLBS counts the GPUs of a range and of all", "[cuda][program]") {
  const Place place;
  for (const auto& [gpus, numbers] : {std::pair("all", "0,1,2,3"), {"1-3", "1,2,3"}}) {
    const Ended ended = place.dtrain({"bench", "dlbs", "--model", "alexnet", "--gpus", gpus, "--replica-batch", "2",
                                      "--num-batches", "1", "--dry-run"});
    INFO(ended.output);
    CHECK(ended.code == 0);
    const int64_t count = std::string(numbers).size() / 2 + 1;
    CHECK_THAT(ended.output, Contains(fmt::format("--gpus {} ", numbers)) &&
                                 Contains(fmt::format("exp.num_local_gpus__={}", count)) &&
                                 Contains(fmt::format("--batch-size {} ", 2 * count)));
  }
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
