#include "bench/kv.h"

#include <iostream>

#include "job/flags/store.h"
#include "job/process/exit_code.h"
#include "requests.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct BenchKvOptions {
  bench::BenchKvOptions bench;
  int64_t workers = 1, servers = 1, cpus = 1;
  bool json = false;
};

job::FlagTable<BenchKvOptions> bench_kv_flags() {
  return {
      {
          {.name = "num-workers",
           .aliases = {"-n"},
           .value = "W",
           .help = "number of workers",
           .bind = DT_FIELD(BenchKvOptions, workers),
           .min = 1,
           .max = 256},
          {.name = "num-servers",
           .aliases = {"-s"},
           .value = "S",
           .help = "number of servers",
           .bind = DT_FIELD(BenchKvOptions, servers),
           .min = 1,
           .max = 256},
          {.name = "kv-store",
           .value = "NAME",
           .help =
               "store to measure: dist_sync (or dist); with --cpus, local, device, nccl, nccl_allreduce or allreduce",
           .bind = DT_FIELD(BenchKvOptions, bench.store)},
          {.name = "cpus",
           .value = "N",
           .help = "number of CPU devices, for a store within one process",
           .bind = DT_FIELD(BenchKvOptions, cpus),
           .min = 1,
           .max = 256},
          {.name = "shapes",
           .value = "NETWORK|FILE",
           .help = "arrays to exchange: the parameters of a network, or the arrays in a file with lines NAME D0 D1 ...",
           .bind = DT_FIELD(BenchKvOptions, bench.shapes)},
          num_batches_row(DT_FIELD(BenchKvOptions, bench.num_batches)),
          {.name = "disp-batches",
           .value = "N",
           .help = "number of batches between progress lines",
           .bind = DT_FIELD(BenchKvOptions, bench.disp_batches),
           .min = 1,
           .max = job::kStepsMax},
          {.name = "optimizer",
           .value = "NAME",
           .help = "how weights are updated: none (subtract the mean of the gradients) or sgd",
           .bind = DT_FIELD(BenchKvOptions, bench.optimizer),
           .choices = {"none", "sgd"}},
          {.name = "test-results",
           .help = "check the weights against the same updates computed without servers",
           .bind = DT_FIELD(BenchKvOptions, bench.test_results)},
          json_row(DT_FIELD(BenchKvOptions, json)),
      },
      {{{"--gpus", "--gpu"},
        "is refused, because this version measures host memory only; leave out the flag",
        Code::kDevice}}};
}

Result<ToolLine<BenchKvOptions>> read_bench_kv(const Call& call) {
  DT_TRY(ToolLine<BenchKvOptions> line, read_tool_line(bench_kv_flags(), "dtrain bench kv [FLAGS]", call, 0, 0));
  BenchKvOptions& options = line.options;
  DT_TRY(options.bench.store, job::canonical_store_name(options.bench.store), "reading --kv-store");
  options.bench.workers = static_cast<uint32_t>(options.workers);
  options.bench.devices = static_cast<uint32_t>(options.cpus);
  options.bench.servers = static_cast<uint32_t>(options.servers);
  return line;
}

}  // namespace

Result<bench::BenchKvOptions> bench_kv_request(const Call& call) {
  DT_TRY(const ToolLine<BenchKvOptions> line, read_bench_kv(call));
  return line.options.bench;
}

Result<int> bench_kv(const Call& call) {
  DT_TRY(const ToolLine<BenchKvOptions> line, read_bench_kv(call));
  if (line.help) return 0;
  const BenchKvOptions& options = line.options;
  const bool json = options.json;
  DT_TRY(const bench::BenchKvResult result, bench::bench_kv(options.bench, [json](std::string_view progress) {
           if (!json) std::cerr << progress << std::endl;
         }));
  if (!json) std::cerr << result.text();
  std::cout << result.json() << std::endl;
  return result.within_bound() ? job::kExitOk : job::kExitInternal;
}

}  // namespace dtrain::cmd
