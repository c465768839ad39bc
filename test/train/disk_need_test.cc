#include "train/disk_need.h"

#include <filesystem>

#include "support/catch.h"
#include "support/temp_dir.h"

using Catch::Matchers::Contains;

namespace dtrain::train {

TEST_CASE("the checkpoints that are on disk at one time are foreseen", "[train]") {
  CHECK(checkpoints_to_come({.num_epochs = 100}) == 100);
  CHECK(checkpoints_to_come({.save_period = 7, .num_epochs = 100}) == 14);
  CHECK(checkpoints_to_come({.save_period = 0, .num_epochs = 100}) == 0);
  // One is written before the oldest is removed.
  CHECK(checkpoints_to_come({.num_epochs = 100, .keep = 3}) == 4);
  CHECK(checkpoints_to_come({.num_epochs = 2, .keep = 3}) == 2);
  // Those of a resumed run are there already.
  CHECK(checkpoints_to_come({.num_epochs = 100, .keep = 3, .finished = 40, .on_disk = 3}) == 1);
  CHECK(checkpoints_to_come({.num_epochs = 100, .keep = 3, .finished = 40, .on_disk = 9}) == 1);
  CHECK(checkpoints_to_come({.save_period = 7, .num_epochs = 100, .finished = 40}) == 9);
  CHECK(checkpoints_to_come({.num_epochs = 100, .keep = 3, .finished = 100, .on_disk = 3}) == 0);
}

TEST_CASE("checkpoints that do not fit on the disk are warned of, and refused if not even one fits", "[train]") {
  const DiskNeed need{.checkpoints = 4, .checkpoint = 0x1p30, .best = 0x1p29};
  CHECK(need.bytes() == 4.5 * 0x1p30);
  CHECK(check_disk(need, "runs/a/net", need.bytes()).value().empty());
  CHECK_THAT(check_disk(need, "runs/a/net", 3 * 0x1p30).value(),
             Contains("take 4.5 GiB at the same time (4 of 1.0 GiB, and 512.0 MiB for the best checkpoint)") &&
                 Contains("only 3.0 GiB are free for 'runs/a/net'") && Contains("--keep"));
  const Result<std::string> refused = check_disk(need, "runs/a/net", 0x1p29);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kData);
  CHECK_THAT(refused.error().message,
             Contains("a checkpoint takes 1.0 GiB, but only 512.0 MiB are free for 'runs/a/net'"));
  CHECK(check_disk({.checkpoints = 0, .checkpoint = 0x1p40}, "net", 0).value().empty());
}

TEST_CASE("the free space is that of the file system where the directory will be", "[train]") {
  const test::TempDir dir;
  const auto space = static_cast<double>(std::filesystem::space(dir.path()).capacity);
  for (const std::string& prefix : {dir.path("net"), dir.path("not/yet/there/net")}) {
    CHECK(free_bytes_for(prefix) > 0);
    CHECK(free_bytes_for(prefix) <= space);
  }
}

}  // namespace dtrain::train
