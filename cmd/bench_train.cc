#include "bench/train.h"

#include "base/host_limits.h"
#include "notes.h"
#include "requests.h"
#include "role/setup/devices.h"
#include "tool.h"

namespace dtrain::bench {

constexpr std::array<job::Named<BenchTrainOptions::Phase>, 2> names_of(BenchTrainOptions::Phase) {
  return {{{"training", BenchTrainOptions::Phase::kTraining}, {"inference", BenchTrainOptions::Phase::kInference}}};
}

}  // namespace dtrain::bench

namespace dtrain::cmd {

namespace {

struct BenchTrainOptions {
  bench::BenchTrainOptions bench;
  int64_t threads = 0;
  job::GpuList gpus;
  std::string dtype = "float32";
  bool json = false;
};

std::vector<job::FlagRow<BenchTrainOptions>> bench_train_rows() {
  return {
      training_row("network", DT_FIELD(BenchTrainOptions, bench.network)),
      training_row("batch-size", DT_FIELD(BenchTrainOptions, bench.batch_size)),
      training_row("image-shape", job::image_shape(DT_FIELD(BenchTrainOptions, bench.image, "auto")), "by network"),
      training_row("num-classes", DT_FIELD(BenchTrainOptions, bench.num_classes, "auto"), "by network"),
      training_row("threads", DT_FIELD(BenchTrainOptions, threads, "auto"), "cores of the host"),
      training_row("gpus", DT_FIELD(BenchTrainOptions, gpus, "none")),
      training_row("dtype", DT_FIELD(BenchTrainOptions, dtype)),
      training_row("tf32", DT_FIELD(BenchTrainOptions, bench.tf32)),
      training_row("winograd", DT_FIELD(BenchTrainOptions, bench.winograd)),
      {.name = "phase",
       .value = "training|inference",
       .help = "training (forward, backward and update) or inference (forward)",
       .bind = DT_FIELD(BenchTrainOptions, bench.phase)},
      num_batches_row(DT_FIELD(BenchTrainOptions, bench.num_batches)),
      {.name = "num-warmup-batches",
       .value = "N",
       .help = "number of batches to run before the measurement",
       .bind = DT_FIELD(BenchTrainOptions, bench.num_warmup_batches),
       .min = 0,
       .max = job::kStepsMax},
      {.name = "bound",
       .help = "also run the oneDNN primitives alone, alternating with the batches, and print the sum of their times",
       .bind = DT_FIELD(BenchTrainOptions, bench.bound)},
      {.name = "profile",
       .help = "also print where the time goes: for each step of each node, its time, GFLOP/s, GB/s and the share of "
               "the peak of the CPU or GPU or of its memory; with --bound, also the time of the oneDNN primitive alone",
       .bind = DT_FIELD(BenchTrainOptions, bench.profile)},
      json_row(DT_FIELD(BenchTrainOptions, json)),
  };
}

// Sets the GPU, if --gpus names one, and the data type.
Result<> choose_device(BenchTrainOptions& options) {
  options.bench.dtype = role::type_of(options.dtype);
  DT_TRY_VOID(role::find_gpus(options.gpus));
  DT_TRY_VOID(job::check_one_gpu(options.gpus, "bench train measures one GPU"));
  if (!options.gpus.empty()) options.bench.gpu = static_cast<int>(options.gpus.numbers.front());
  return {};
}

Result<ToolLine<BenchTrainOptions>> read_bench_train(const Call& call) {
  DT_TRY(ToolLine<BenchTrainOptions> line, read_tool_line(job::FlagTable<BenchTrainOptions>(bench_train_rows()),
                                                          "dtrain bench train [FLAGS]", call, 0, 0));
  BenchTrainOptions& options = line.options;
  options.bench.threads = options.threads > 0 ? static_cast<int>(options.threads) : usable_cores();
  DT_TRY_VOID(choose_device(options));
  return line;
}

}  // namespace

Result<bench::BenchTrainOptions> bench_train_request(const Call& call) {
  DT_TRY(const ToolLine<BenchTrainOptions> line, read_bench_train(call));
  return line.options.bench;
}

Result<int> bench_train(const Call& call) {
  DT_TRY(const ToolLine<BenchTrainOptions> line, read_bench_train(call));
  if (line.help) return 0;
  const BenchTrainOptions& options = line.options;
  if (!options.bench.gpu) note_threads(options.bench.threads);
  DT_TRY(const bench::BenchTrainResult result, bench::bench_train(options.bench));
  if (!options.json) std::fputs(result.text().c_str(), stderr);
  fmt::print("{}\n", result.json());
  return 0;
}

}  // namespace dtrain::cmd
