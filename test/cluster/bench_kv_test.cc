// `dtrain bench kv` with servers that are processes.
#include <cstdlib>
#include <string>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

double number_after(const std::string& text, const std::string& name) {
  const size_t at = text.find("\"" + name + "\":");
  INFO(text);
  REQUIRE(at != std::string::npos);
  return std::atof(text.c_str() + at + name.size() + 3);
}

}  // namespace

// The bounds are wide: they show that the numbers have the right unit and that nothing is held for each worker.
TEST_CASE("bench kv tells what its servers use", "[bench-kv]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("shapes"), "weight 4000 4000\n"));
  const Ended end = run(command_line(dtrain_program(), "bench kv -n 4 --num-batches 5 --test-results 0 --json --shapes",
                                     dir.path("shapes")),
                        {.deadline_s = 120, .directory = {}, .environment = {}});
  INFO(end.output);
  REQUIRE(end.code == 0);
  const double cpu_ms = number_after(end.output, "server_cpu_ms");
  CHECK(cpu_ms > 1);
  CHECK(cpu_ms < 5000);
  const double extra_mb = number_after(end.output, "server_extra_bytes") / 1e6;
  CHECK(extra_mb > 1);
  CHECK(extra_mb < 400);
}
