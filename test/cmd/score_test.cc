// dtrain score, from the training of a model on.
#include <filesystem>

#include "base/file.h"
#include "small_model.h"
#include "support/catch.h"
#include "support/terminal.h"

namespace dtrain {

using test::first_match;
using test::in_directory;
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
      {"--model", "run"},  // the run's own validation data
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
    const test::Ended scored = in_directory(dir, words);
    INFO(scored.output);
    CHECK(scored.code == 0);
    CHECK(first_match(scored.output, R"(\('accuracy', ([\d.]+)\))") == accuracy);
    CHECK(!first_match(scored.output, R"(\('top_k_accuracy_5', ([\d.]+)\))").empty());
  }
}

TEST_CASE("score says first that it takes the run's own data, wherever it runs", "[cmd]") {
  const test::TempDir dir;
  const std::string accuracy = train_small(dir);
  const test::Ended here = in_directory(dir, {"score", "--model", "run"});
  INFO(here.output);
  CHECK_THAT(
      here.output.substr(0, here.output.find('\n')),
      Catch::Contains(
          "scoring with the validation data of the run, data; to use other data, give --data-val or --data-dir"));
  std::filesystem::create_directory(dir.path("elsewhere"));
  const test::Ended there = test::run({DTRAIN_EXE, "score", "--model", "../run"},
                                      {.deadline_s = 60, .directory = dir.path("elsewhere"), .environment = {}});
  INFO(there.output);
  CHECK(there.code == 0);
  CHECK(first_match(there.output, R"(\('accuracy', ([\d.]+)\))") == accuracy);
  std::filesystem::rename(dir.path("data"), dir.path("moved"));
  const test::Ended moved = in_directory(dir, {"score", "--model", "run"});
  CHECK(moved.code == 7);
  CHECK_THAT(moved.output, Catch::Contains("if they were moved, give --data-dir or --data-val"));
}

TEST_CASE("score prints a table on a terminal, and MXNet's lines elsewhere", "[cmd]") {
  const test::TempDir dir;
  train_small(dir);
  const auto on_terminal = [&](const std::string& flags) {
    test::Terminal terminal;
    const std::string command =
        fmt::format("'{}' score --model run {} > {} 2>/dev/null", DTRAIN_EXE, flags, terminal.path());
    const test::Ended ended =
        test::run({"/bin/sh", "-c", command}, {.deadline_s = 60, .directory = dir.path(), .environment = {}});
    INFO(ended.output);
    REQUIRE(ended.code == 0);
    return terminal.take();
  };
  const std::string table = on_terminal("");
  CHECK_THAT(table, Catch::Contains("model  run/lenet-0001.params") &&
                        Catch::Contains("data   data, the validation data of the run") &&
                        Catch::Contains("class  accuracy  correct") && !Catch::Contains("Finished with"));
  for (const char* format : {"1.9", "legacy"}) {
    CHECK_THAT(on_terminal(fmt::format("--log-format {}", format)), Catch::Contains("Finished with ") &&
                                                                        Catch::Contains("('accuracy', ") &&
                                                                        !Catch::Contains("class  accuracy"));
  }
  CHECK_THAT(on_terminal("--json"), Catch::StartsWith("{\"params\":"));
  CHECK_THAT(in_directory(dir, {"score", "--model", "run"}).output,
             Catch::Contains("\n('accuracy', ") && !Catch::Contains("class  accuracy"));
}

TEST_CASE("score says what is wrong with a model or the data", "[cmd]") {
  const test::TempDir dir;
  train_small(dir);
  std::filesystem::create_directory(dir.path("foreign"));
  std::filesystem::copy_file(dir.path("run/lenet-0001.params"), dir.path("foreign/lenet-0001.params"));
  REQUIRE(write_file_atomic(dir.path("broken.params"), "not a model"));
  const test::Ended trained =
      in_directory(dir, {"--network", "lenet", "--benchmark", "1", "--num-batches", "1", "--batch-size", "8",
                         "--num-epochs", "1", "--run-dir", "trained-only"});
  INFO(trained.output);
  REQUIRE(trained.code == 0);
  struct Mistake {
    std::vector<std::string> words;
    int code;
    std::string message;
  };
  const std::vector<Mistake> mistakes = {
      {{"--data-dir", "data"}, 2, "give --model"},
      {{"--model", "nowhere", "--data-dir", "data"}, 7, "--model nowhere: there is no nowhere-NNNN.params"},
      {{"--model", "run", "--load-epoch", "9", "--data-dir", "data"}, 7, "run/lenet-0009.params"},
      {{"--model", "trained-only"}, 2, "had no validation data: give --data-val"},
      {{"--model", "foreign/lenet", "--network", "lenet", "--num-classes", "10"}, 2, "give --data-val"},
      {{"--model", "run", "--data-val", "nothing.rec"}, 7, "nothing.rec"},
      {{"--model", "foreign/lenet", "--data-dir", "data"}, 2, "give --network and --num-classes"},
      {{"--model", "broken.params", "--network", "lenet", "--num-classes", "10", "--data-dir", "data"}, 7, "broken"},
      {{"--model", "run", "--data-dir", "data", "--num-classes", "7"}, 7, "fullyconnected1_weight"},
      {{"--model", "run", "--data-dir", "data", "--network", "mlp"}, 7, "lenet-0001.params"},
      {{"--model", "run", "--data-dir", "data", "--gpus", "0"}, 8, "leave out --gpus"},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> words = mistake.words;
    words.insert(words.begin(), "score");
    const test::Ended ended = in_directory(dir, words);
    INFO(ended.output);
    CHECK(ended.code == mistake.code);
    CHECK_THAT(ended.output, Catch::Contains(mistake.message));
  }
}

}  // namespace dtrain
