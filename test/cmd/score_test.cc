// dtrain score, from the training of a model on.
#include <filesystem>

#include "base/file.h"
#include "small_model.h"
#include "support/catch.h"

namespace dtrain {

using test::first_match;
using test::in_folder;
using test::train_small;

TEST_CASE("score gives the accuracy of the run's own validation", "[cmd]") {
  const test::TempDir dir;
  const std::string accuracy = train_small(dir);
  REQUIRE(!accuracy.empty());
  std::filesystem::create_directory(dir.path("foreign"));
  std::filesystem::copy_file(dir.path("run/lenet-0001.params"), dir.path("foreign/lenet-0001.params"));
  std::filesystem::create_directory(dir.path("mxnet"));
  for (const char* file : {"lenet-0001.params", "lenet-symbol.json"}) {
    std::filesystem::copy_file(dir.path(std::string("run/") + file), dir.path(std::string("mxnet/") + file));
  }
  const std::vector<std::vector<std::string>> models = {
      {"--model", "run", "--data-dir", "data"},
      {"--model", "run/lenet", "--load-epoch", "1", "--data-dir", "data", "--batch-size", "7"},
      {"--model", "run/lenet-0001.params", "--data-val", "data/test.rec"},
      {"--model", "mxnet/lenet", "--image-shape", "3,28,28", "--scale", "1", "--rgb-mean", "123.68,116.779,103.939",
       "--data-val", "data/test.rec"},
      {"--model", "foreign/lenet", "--network", "lenet", "--scale", "1", "--num-classes", "10", "--image-shape",
       "3,28,28", "--rgb-mean", "123.68,116.779,103.939", "--data-val", "data/test.rec"},
  };
  for (std::vector<std::string> words : models) {
    words.insert(words.begin(), "score");
    const test::Ended scored = in_folder(dir, words);
    INFO(scored.output);
    CHECK(scored.code == 0);
    CHECK(first_match(scored.output, R"(\('accuracy', ([\d.]+)\))") == accuracy);
    CHECK(!first_match(scored.output, R"(\('top_k_accuracy_5', ([\d.]+)\))").empty());
  }
}

TEST_CASE("score says what is wrong with a model or the data", "[cmd]") {
  const test::TempDir dir;
  train_small(dir);
  std::filesystem::create_directory(dir.path("foreign"));
  std::filesystem::copy_file(dir.path("run/lenet-0001.params"), dir.path("foreign/lenet-0001.params"));
  REQUIRE(write_file_atomic(dir.path("broken.params"), "not a model"));
  struct Mistake {
    std::vector<std::string> words;
    int code;
    std::string message;
  };
  const std::vector<Mistake> mistakes = {
      {{"--data-dir", "data"}, 2, "give --model"},
      {{"--model", "nowhere", "--data-dir", "data"}, 7, "--model nowhere: there is no nowhere-NNNN.params"},
      {{"--model", "run", "--load-epoch", "9", "--data-dir", "data"}, 7, "run/lenet-0009.params"},
      {{"--model", "run"}, 2, "give --data-val"},
      {{"--model", "run", "--data-val", "nothing.rec"}, 7, "nothing.rec"},
      {{"--model", "foreign/lenet", "--data-dir", "data"}, 2, "give --network and --num-classes"},
      {{"--model", "broken.params", "--network", "lenet", "--num-classes", "10", "--data-dir", "data"}, 7, "broken"},
      {{"--model", "run", "--data-dir", "data", "--num-classes", "7"}, 7, "fullyconnected1_weight"},
      {{"--model", "run", "--data-dir", "data", "--network", "mlp"}, 7, "lenet-0001.params"},
      {{"--model", "run", "--data-dir", "data", "--gpus", "0"}, 8, "CPUs only"},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> words = mistake.words;
    words.insert(words.begin(), "score");
    const test::Ended ended = in_folder(dir, words);
    INFO(ended.output);
    CHECK(ended.code == mistake.code);
    CHECK_THAT(ended.output, Catch::Contains(mistake.message));
  }
}

}  // namespace dtrain
