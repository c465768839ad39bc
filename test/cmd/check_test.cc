// dtrain --check reference: one batch, computed by the backend and by the reference.
#include <filesystem>

#include "base/file.h"
#include "small_model.h"
#include "support/catch.h"

namespace dtrain {

using Catch::Matchers::Contains;
using test::in_directory;

TEST_CASE("--check compares every tensor of the first step with the reference, and does not train", "[cmd]") {
  const test::TempDir dir;
  REQUIRE(in_directory(dir, {"data", "synth", "--out", "data", "--count", "16", "--size", "28"}).code == 0);
  const test::Ended ended =
      in_directory(dir, {"--network", "lenet", "--data-dir", "data", "--num-classes", "10", "--image-shape", "3,28,28",
                         "--batch-size", "4", "--num-epochs", "1", "--run-dir", "run", "--check", "reference"});
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.output, Contains("check against the reference: check: all ") &&
                               Contains(" tensors agree with the reference; worst: node '"));
  CHECK_THAT(ended.output, !Contains("Epoch[0]"));
  CHECK_FALSE(std::filesystem::exists(dir.path("run/lenet-0001.params")));
}

}  // namespace dtrain
