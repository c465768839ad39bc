#include "job/flags/command_line.h"

#include <cstdlib>

#include "base/file.h"
#include "job/flags/rows.h"
#include "job/parse.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

// The words of a line; '' is an empty word.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    const std::string word = line.substr(begin, end - begin);
    words.push_back(word == "''" ? "" : word);
    begin = end + 1;
  }
  return words;
}

// What the table of training makes of the words: the flags that they change, and the words that are no flags.
std::string outcome_of(const std::vector<std::string>& words) {
  std::vector<std::string> positionals;
  const auto settings = training_flags().read(words, positionals);
  if (!settings) return "error: " + settings.error().message;
  Flags flags;
  for (const Setting& setting : *settings) {
    const Result<> applied = training_flags().apply(setting, flags);
    if (!applied) return "error: " + applied.error().message;
  }
  std::string text = describe(flags);
  if (text.empty()) text = "defaults";
  for (size_t i = 0; i < positionals.size(); i++) text += (i == 0 ? " and the words: " : " ") + positionals[i];
  return text;
}

}  // namespace

// command_lines.txt has pairs of lines: a command line, and what it means. DTRAIN_REWRITE_GOLDEN=1 writes what the
// command lines mean now, and the change is then read as a diff. Both versions of CLI11 that dtrain is built with must
// agree.
TEST_CASE("command lines mean what is recorded", "[job]") {
  const std::string path = std::string(DTRAIN_JOB_TEST_DIR) + "/command_lines.txt";
  const Result<std::string> golden = read_file(path);
  REQUIRE(golden);
  std::string now;
  size_t count = 0;
  for (size_t begin = 0; begin < golden->size();) {
    const size_t end = std::min(golden->find('\n', begin), golden->size());
    const std::string line = golden->substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("  ")) continue;
    now += line + "\n";
    if (line.starts_with("#") || line.empty()) continue;
    now += "  " + outcome_of(words_of(line)) + "\n";
    count++;
  }
  CHECK(count > 40);
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, now));
  CHECK(now == *golden);
}

TEST_CASE("the first words name a sub-command", "[job]") {
  const auto count = [](const std::string& line) {
    return count_command_words({{"train"}, {"data", "get"}, {"data", "index"}, {"im2rec"}}, words_of(line));
  };
  CHECK(count("") == 0);
  CHECK(count("train --lr 0.1") == 1);
  CHECK(count("data get mnist") == 2);
  CHECK(count("data get train") == 2);
  CHECK(count("data") == 1);
  CHECK(count("data gte mnist") == 1);
  CHECK(count("data --help get") == 1);
  CHECK(count("im2rec train data") == 1);
  // None of these is a sub-command, in no version of CLI11.
  for (const char* line : {"--network train", "-n 2 train", "lenet", "lenet train", "'' train", "data.get mnist",
                           "Train", "trai", "get", "++ train", "-- train"}) {
    INFO(line);
    CHECK(count(line) == 0);
  }
}

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
  CHECK(parsed({"--data-train-idx=", "--lr=0.5"}).data.data_train_idx.empty());
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
  const std::vector<std::string> defaults = test::command_line(
      "--kv-store=device --num-epochs=100 --lr=0.1 --lr-factor=0.1 --lr-step-epochs=30,60 "
      "--initializer=default --optimizer=sgd --mom=0.9 --wd=0.0001 --batch-size=128 "
      "--disp-batches=20 --save-period=1 --monitor=0 --top-k=0 --loss= --test-io=0 "
      "--dtype=float32 --gc-type=none --gc-threshold=0.5 --macrobatch-size=0 "
      "--warmup-epochs=5 --warmup-strategy=linear --profile-worker-suffix= "
      "--profile-server-suffix= --use-imagenet-data-augmentation=0 --data-train-idx= "
      "--data-val-idx= --rgb-mean=123.68,116.779,103.939 --rgb-std=1,1,1 --pad-size=0 "
      "--fill-value=127 --image-shape=3,224,224 --num-classes=1000 --num-examples=1281167 "
      "--data-nthreads=4 --benchmark=0 --random-crop=0 --random-mirror=0 --max-random-h=0 "
      "--max-random-s=0 --max-random-l=0 --min-random-aspect-ratio=none "
      "--max-random-aspect-ratio=0 --max-random-rotate-angle=0 --max-random-shear-ratio=0 "
      "--max-random-scale=1 --min-random-scale=1 --max-random-area=1 --min-random-area=1 "
      "--min-crop-size=-1 --max-crop-size=-1 --brightness=0 --contrast=0 --saturation=0 "
      "--pca-noise=0 --random-resized-crop=0 --layer-before-fullc=flatten0 --num-group=32 "
      "--batch-norm=0");
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
