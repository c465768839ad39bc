#include "role/worker/calibration.h"

#include "job/flags/flags.h"
#include "job/flags/store.h"
#include "role/setup/threads.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::role;
using dtrain::test::command_line;
using dtrain::test::must;

TEST_CASE("a calibration keeps the job's workers, input and threads but no servers and checkpoints", "[role]") {
  const std::vector<std::string> arguments = command_line(
      "-n 3 -s 2 --network lenet --data-dir d --batch-size 16 --kv-store dist_gsync "
      "--data-allocator 1 --group-staleness 2 --resume auto --model-prefix m --log-format legacy "
      "--inject step-ms=5@worker:1 --role worker --scheduler h:1");
  const job::Parsed parsed = must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; }));
  const job::Flags flags = calibration_flags(parsed.flags, {.batches = 40});
  CHECK(flags.job.num_workers == 3);
  CHECK(flags.job.num_servers == 0);
  CHECK(flags.job.batch_size == 16);
  CHECK_FALSE(flags.job.scheme.data_allocator);
  CHECK_FALSE(flags.job.scheme.group_staleness);
  CHECK_FALSE(job::store_of(flags.job).servers);
  CHECK(flags.wire.inject == parsed.flags.wire.inject);
  CHECK(plan_threads(flags).compute == plan_threads(parsed.flags).compute);
  CHECK(plan_threads(flags).decode == plan_threads(parsed.flags).decode);
  CHECK(flags.loop.resume.empty());
  CHECK(flags.loop.model_prefix.empty());
  CHECK(flags.loop.log_format == job::LogFormat::kLegacy);
  // 40 batches and 10 to warm up make one epoch of each worker, so that the launcher's progress ends at 100 %.
  CHECK(flags.job.augment.num_examples == 3 * 16 * 50);
}
