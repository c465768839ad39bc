#include "dry_run.h"

#include "base/file.h"
#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::cmd;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

Result<std::string> dry_run(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--network", "mlp", "--benchmark", "1", "--batch-size", "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const job::Parsed parsed =
      must(job::parse_flags(arguments, [](const std::string&) { return std::optional<std::string>(); }));
  return dry_run_text(parsed.flags, "", {});
}

}  // namespace

TEST_CASE("a dry run names the network, the rates, the memory and where weights are updated", "[flags][dry_run]") {
  const std::string text = must(dry_run({"--lr", "0.5", "--lr-factor", "0.1", "--lr-step-epochs", "3"}));
  CHECK_THAT(text, Contains("network: mlp, 10 classes, images 1,28,28: 109386 parameters in 6 arrays"));
  CHECK_THAT(text, Contains("learning rate by epoch: 0.5, 0.05 from 3; 100 epochs"));
  CHECK_THAT(text, Contains("memory of a worker: weights 427 KiB") && Contains("weights are updated on cpu(0)"));
  CHECK_FALSE(Contains("scheme:").match(text));
}

TEST_CASE("a dry run says which workers wait for each other", "[flags][dry_run]") {
  const auto text = [](std::vector<std::string> flags) { return must(dry_run(std::move(flags))); };
  CHECK_THAT(text({"-n", "3", "-s", "1"}), Contains("scheme: BSP, all workers wait for each other"));
  CHECK_THAT(text({"-n", "3", "-s", "1", "--backup", "1"}), Contains("waits for all workers except the last 1"));
  CHECK_THAT(text({"-n", "3", "-s", "1", "--kv-store", "dist_async"}), Contains("scheme: ASP"));
  CHECK_THAT(text({"-n", "3", "-s", "1", "--kv-store", "dist_ssync", "--staleness", "4"}),
             Contains("more than 4 steps"));
}

TEST_CASE("a dry run shows the groups and reports flags that contradict them", "[flags][dry_run]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("groups"), "#0 #2\n#1\n"));
  std::vector<std::string> flags = {
      "-n", "3", "-s", "1", "--kv-store", "dist_gsync", "--groups-file", dir.path("groups")};
  CHECK_THAT(must(dry_run(flags)), Contains("group 0: workers 0 (") && Contains("group 1: workers 1 ("));
  flags.emplace_back("--deterministic");
  CHECK_THAT(dry_run(flags).error().text(), Contains("the updates of 2 groups"));
  must(write_file_atomic(dir.path("groups"), "#0 #1 #2\n"));
  CHECK(dry_run(flags));
  flags.back() = "--data-allocator";
  const std::string text = must(dry_run(flags));
  CHECK_THAT(text, Contains("missing on this host: ") && Contains("`dtrain plan` writes this file"));
}
