#include "job/resolve/reading.h"

#include <fmt/ranges.h>

#include "job/parse.h"
#include "job/spec/remembered.h"
#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

TEST_CASE("--data-nthreads takes a number or auto, which a resumed run keeps", "[job]") {
  CHECK(parsed({"--data-nthreads", "3"}).data.data_threads == 3);
  const Flags flags = parsed({"--data-nthreads", "3", "--data-nthreads", "auto"});
  CHECK(flags.data.data_threads == 0);
  CHECK(flags.data.data_threads_auto);
  CHECK_FALSE(parsed({"--data-nthreads", "auto", "--data-nthreads", "2"}).data.data_threads_auto);
  CHECK(remember(flags, "/work").values.at("data-nthreads") == "auto");
  CHECK_THAT(refused({"--data-nthreads", "many"}), Contains("--data-nthreads: 'many' is neither a number nor auto"));
  CHECK_THAT(refused({"--data-nthreads", "5000"}), Contains("5000 is more than 1024"));
}

TEST_CASE("--test-io reads one epoch and excludes flags that only training uses", "[job]") {
  const Flags flags = parsed({"--test-io", "--num-epochs", "30"});
  CHECK(flags.loop.test_io);
  CHECK(flags.job.num_epochs == 1);
  CHECK(parsed({"--test-io", "0", "--num-epochs", "30"}).job.num_epochs == 30);
  CHECK(parsed({"--test-io", "1", "-n", "2", "-s", "1", "--benchmark", "1"}).loop.test_io);
  CHECK_THAT(refused({"--test-io", "--resume", "auto"}), Contains("leave out --resume"));
  CHECK_THAT(refused({"--test-io", "--load-epoch", "0"}), Contains("leave out --load-epoch"));
  CHECK_THAT(refused({"--test-io", "--check", "reference"}), Contains("leave out --check"));
  CHECK_THAT(refused({"--test-io", "--trace", "10"}), Contains("leave out --trace"));
  CHECK_THAT(refused({"--test-io", "--monitor", "10"}), Contains("leave out --monitor"));
  CHECK_THAT(refused({"--test-io", "--data-nthreads", "auto"}), Contains("give a number"));
}

TEST_CASE("a note names flags about the order of records that have no effect", "[job]") {
  const auto notes = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--benchmark", "1"});
    const Result<Parsed> parsed = parse_flags(arguments, variables({}));
    REQUIRE(parsed);
    return fmt::format("{}", fmt::join(parsed->notes, "\n"));
  };
  CHECK_THAT(notes({"--shuffle", "0", "--shuffle-chunk-size", "64"}),
             Contains("--shuffle-chunk-size 64 has no effect with --shuffle 0"));
  CHECK_THAT(notes({"--resplit-every", "2"}), Contains("--resplit-every 2 has no effect with one worker"));
  CHECK(notes({"-n", "2", "--resplit-every", "2", "--shuffle-chunk-size", "64"}).empty());
}

TEST_CASE("a note names the files that --benchmark 1 does not read", "[job]") {
  const auto notes = [](const std::vector<std::string>& arguments) {
    const Result<Parsed> parsed = parse_flags(arguments, variables({}));
    REQUIRE(parsed);
    return fmt::format("{}", fmt::join(parsed->notes, "\n"));
  };
  CHECK(notes({"--benchmark", "1", "--data-train", "a.rec", "--data-val", "b.rec"}) ==
        "--benchmark 1 trains on synthetic data, not on the files of --data-train, --data-val");
  CHECK(notes({"--benchmark", "0", "--data-train", "a.rec"}).empty());
  CHECK(notes({"--benchmark", "1", "--preset", "cifar10"}).empty());
}

TEST_CASE("--synthetic-on gpu needs --benchmark and a GPU", "[job]") {
  CHECK(parsed({"--benchmark", "1", "--gpus", "0", "--synthetic-on", "gpu"}).device.synthetic_on_device);
  CHECK_FALSE(parsed({"--synthetic-on", "cpu"}).device.synthetic_on_device);
  CHECK_THAT(refused({"--gpus", "0", "--synthetic-on", "gpu"}), Contains("give --benchmark 1"));
  CHECK_THAT(refused({"--benchmark", "1", "--synthetic-on", "gpu"}),
             Contains("needs a GPU") && Contains("--gpus") && Contains("--synthetic-on cpu"));
  CHECK_THAT(refused({"--synthetic-on", "disk"}), Contains("Choose from: cpu, gpu"));
}

}  // namespace dtrain::job
