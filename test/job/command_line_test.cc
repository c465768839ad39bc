#include "job/flags/command_line.h"

#include "base/file.h"
#include "job/parse.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

TEST_CASE("a flag without a value is an error, and the next flag is not taken as its value", "[job]") {
  CHECK_THAT(refused({"--batch-size"}), Contains("--batch-size: the value is missing"));
  CHECK_THAT(refused({"--lr", "--mom", "0.5"}),
             Contains("--lr: the value is missing; the next word, '--mom', is a flag"));
  CHECK_THAT(refused({"--lr", "-n", "2"}), Contains("--lr: the value is missing"));
  CHECK(parsed({"--min-crop-size", "-1"}).job.augment.min_crop_size == -1);
}

TEST_CASE("a long flag with a single dash is not parsed as a short flag", "[job]") {
  for (const char* word : {"-network", "-network=lenet", "-num-workers"}) {
    CHECK_THAT(refused({word, "lenet"}), Contains("unknown flag '-n") && Contains("did you mean '--n"));
  }
}

TEST_CASE("an empty value is not the same as a missing value", "[job]") {
  CHECK_THAT(refused({"--lr="}), Contains("--lr: '' is not a number"));
  CHECK_THAT(refused({"--lr=", "0.5"}), Contains("'0.5' is neither a flag nor a sub-command"));
  CHECK_THAT(refused({"--lr", ""}), Contains("--lr: '' is not a number"));
  CHECK_THAT(refused({"--deterministic="}), Contains("--deterministic: '' is neither 0 nor 1"));
  CHECK(parsed({"--model-prefix=", "--lr=0.5"}).loop.model_prefix.empty());
  CHECK(parsed({"-n=3"}).job.num_workers == 3);
  CHECK(parsed({"-n3"}).job.num_workers == 3);
}

// An empty list names no epoch, so the rate stays constant although a factor is given.
TEST_CASE("an empty list of step epochs gives a constant learning rate", "[job]") {
  const std::vector<std::vector<std::string>> lines = {{"--lr-step-epochs="},
                                                       {"--lr-step-epochs", ""},
                                                       {"--lr-step-epochs", "none", "--lr-factor", "0.1"},
                                                       {"--lr-factor", "0.1", "--lr-step-epochs="},
                                                       {"--preset", "mnist", "--lr-step-epochs="}};
  for (const std::vector<std::string>& flags : lines) {
    INFO(flags.front() << " " << flags.back());
    const OptimizerFlags optimizer = parsed(flags).job.optimizer;
    CHECK(optimizer.lr_factor == 1.0);
    CHECK(optimizer.lr_step_epochs.empty());
    CHECK(optimizer.lr_factor_epoch == 0);
  }
  CHECK(parsed({"--lr-factor", "0.1"}).job.optimizer.lr_factor_epoch == 1);
}

TEST_CASE("help is requested with --help or -h", "[job]") {
  for (const char* word : {"--help", "-h"}) {
    const Result<Parsed> result = parse_flags({"--lr", word}, variables({}));
    REQUIRE(result);
    CHECK(result->help);
  }
}

// The flags of MXNet's common/fit.py and common/data.py, each with its default, as scripts pass them on.
TEST_CASE("flags of MXNet's scripts are accepted with their default values", "[job]") {
  const std::vector<std::string> defaults = {"--kv-store=device",
                                             "--num-epochs=100",
                                             "--lr=0.1",
                                             "--lr-factor=0.1",
                                             "--lr-step-epochs=30,60",
                                             "--initializer=default",
                                             "--optimizer=sgd",
                                             "--mom=0.9",
                                             "--wd=0.0001",
                                             "--batch-size=128",
                                             "--disp-batches=20",
                                             "--save-period=1",
                                             "--monitor=0",
                                             "--top-k=0",
                                             "--loss=",
                                             "--test-io=0",
                                             "--dtype=float32",
                                             "--gc-type=none",
                                             "--gc-threshold=0.5",
                                             "--macrobatch-size=0",
                                             "--warmup-epochs=5",
                                             "--warmup-strategy=linear",
                                             "--profile-worker-suffix=",
                                             "--profile-server-suffix=",
                                             "--use-imagenet-data-augmentation=0",
                                             "--data-train-idx=",
                                             "--data-val-idx=",
                                             "--rgb-mean=123.68,116.779,103.939",
                                             "--rgb-std=1,1,1",
                                             "--pad-size=0",
                                             "--fill-value=127",
                                             "--image-shape=3,224,224",
                                             "--num-classes=1000",
                                             "--num-examples=1281167",
                                             "--data-nthreads=4",
                                             "--benchmark=0",
                                             "--random-crop=0",
                                             "--random-mirror=0",
                                             "--max-random-h=0",
                                             "--max-random-s=0",
                                             "--max-random-l=0",
                                             "--min-random-aspect-ratio=none",
                                             "--max-random-aspect-ratio=0",
                                             "--max-random-rotate-angle=0",
                                             "--max-random-shear-ratio=0",
                                             "--max-random-scale=1",
                                             "--min-random-scale=1",
                                             "--max-random-area=1",
                                             "--min-random-area=1",
                                             "--min-crop-size=-1",
                                             "--max-crop-size=-1",
                                             "--brightness=0",
                                             "--contrast=0",
                                             "--saturation=0",
                                             "--pca-noise=0",
                                             "--random-resized-crop=0",
                                             "--layer-before-fullc=flatten0",
                                             "--num-group=32",
                                             "--batch-norm=0"};
  for (const std::string& flag : defaults) {
    INFO(flag);
    const size_t equals = flag.find('=');
    parsed({flag});
    parsed({flag.substr(0, equals), flag.substr(equals + 1)});
  }
  parsed(defaults);
  parsed({"--gc-threshold", ".50", "--replicas", "0.0"});
}

TEST_CASE("flags of MXNet's scripts are refused by name with other values", "[job]") {
  CHECK_THAT(refused({"--gc-type", "2bit"}),
             Contains("--gc-type: '2bit' is not in this version of dtrain; accepted: 'none'"));
  CHECK_THAT(refused({"--replicas", "5"}), Contains("--replicas: '5' is not in this version"));
  CHECK_THAT(refused({"--p3"}), Contains("--p3: '1' is not in this version"));
  CHECK_THAT(refused({"--gc-threshold", ""}), Contains("--gc-threshold: ''"));
  CHECK_THAT(refused({"--profile-server-suffix", "a"}), Contains("'a' is refused") && Contains("no profile"));
  CHECK_THAT(refused({"--initializer", "magic"}), Contains("Choose from: default, xavier, msra, msraprelu"));
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("c.toml"), "gc-type = \"none\"\nmonitor = 0\n"));
  parsed({"--config", dir.path("c.toml")});
  REQUIRE(write_file_atomic(dir.path("c.toml"), "lr = 1\nreplicas = 7\n"));
  CHECK_THAT(refused({"--config", dir.path("c.toml")}), Contains("'7' is not in this version") && Contains("c.toml:2"));
}

}  // namespace dtrain::job
