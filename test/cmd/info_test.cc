// dtrain info of what a run leaves behind.

#include "small_model.h"

#include "support/catch.h"

namespace dtrain {

using Catch::Matchers::Contains;
using test::in_directory;

TEST_CASE("info describes a run, a checkpoint and their files", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  for (const std::string subject : {"run", "run/lenet", "run/lenet-symbol.json"}) {
    const test::Ended shown = in_directory(dir, {"info", subject, "--image-shape", "3,28,28"});
    INFO(shown.output);
    CHECK(shown.code == 0);
    CHECK_THAT(shown.output, Contains("images (3, 28, 28), 10 classes, batches of 1") &&
                                 Contains("convolution0     Convolution     (20, 24, 24)       1,520        864,000"));
  }
  const test::Ended states = in_directory(dir, {"info", "run/lenet-0001.states", "--json"});
  INFO(states.output);
  CHECK(states.code == 0);
  CHECK_THAT(states.output, Contains(R"("header":{"epoch":1,"step":0)") && Contains("state:convolution0_weight:"));
  CHECK(in_directory(dir, {"info", "run", "--load-epoch", "9"}).code == 7);
}

}  // namespace dtrain
