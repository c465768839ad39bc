// A model that a test of the commands trains in a moment.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

// Runs dtrain in the directory.
inline Ended in_directory(const TempDir& dir, std::vector<std::string> words) {
  words.insert(words.begin(), DTRAIN_EXE);
  return run(words, {.deadline_s = 60, .directory = dir.path(), .environment = {}});
}

inline std::string first_match(const std::string& text, const std::string& expression) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(expression)) ? match[1].str() : "";
}

// Trains lenet in `dir` on small images for one epoch, as run/lenet-0001, and returns the validation accuracy. The
// images are in data/train.rec and data/test.rec.
inline std::string train_small(const TempDir& dir) {
  const Ended made = in_directory(dir, {"data", "synth", "--out", "data", "--count", "60", "--size", "28"});
  INFO(made.output);
  REQUIRE(made.code == 0);
  const Ended trained =
      in_directory(dir, {"--network", "lenet", "--data-dir", "data", "--num-classes", "10", "--image-shape", "3,28,28",
                         "--batch-size", "8", "--num-epochs", "1", "--run-dir", "run"});
  INFO(trained.output);
  REQUIRE(trained.code == 0);
  return first_match(trained.output, R"(Validation-accuracy=([\d.]+))");
}

}  // namespace dtrain::test
