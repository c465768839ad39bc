#include "bench/input.h"

#include "job/flags/flags.h"
#include "notes.h"
#include "requests.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct BenchInputOptions {
  bench::BenchInputOptions bench;
  std::string form = "auto";
  bool json = false;
};

job::FlagTable<BenchInputOptions> bench_input_flags() {
  return {{num_batches_row(DT_FIELD(BenchInputOptions, bench.num_batches)),
           {.name = "num-warmup-batches",
            .value = "N",
            .help = "number of batches to read before the measurement",
            .bind = DT_FIELD(BenchInputOptions, bench.num_warmup_batches),
            .min = 0,
            .max = job::kStepsMax},
           {.name = "form",
            .value = "NAME",
            .help = "format of the batches: pixels (bytes, which the device normalizes) or floats (float32, normalized "
                    "by the decoder threads); auto: the format that training uses",
            .bind = DT_FIELD(BenchInputOptions, form),
            .choices = {"auto", "pixels", "floats"}},
           json_row(DT_FIELD(BenchInputOptions, json))}};
}

bench::BenchInputOptions bench_options(const BenchInputOptions& options) {
  using Form = bench::BenchInputOptions::Form;
  bench::BenchInputOptions bench = options.bench;
  if (options.form != "auto") bench.form = options.form == "pixels" ? Form::kPixels : Form::kFloats;
  return bench;
}

constexpr const char* kBenchInputUsage =
    "dtrain bench input TRAINING-FLAGS [FLAGS]\n"
    "Measures how fast the training data are read, decoded and augmented, without\n"
    "training. TRAINING-FLAGS are the flags of training (dtrain help train); only the\n"
    "flags of data and images and --threads have an effect. FLAGS are:";

}  // namespace

Result<bench::BenchInputOptions> bench_input_request(const Call& call) {
  DT_TRY(const MixedLine<BenchInputOptions> line, read_mixed_line(bench_input_flags(), call.arguments));
  return bench_options(line.options);
}

Result<int> bench_input(const Call& call) {
  const job::FlagTable<BenchInputOptions> table = bench_input_flags();
  if (job::asks_for_help(call.arguments)) {
    show_help(call, kBenchInputUsage, table.flag_helps());
    return 0;
  }
  DT_TRY(const MixedLine<BenchInputOptions> line, read_mixed_line(table, call.arguments));
  DT_TRY(const job::Parsed parsed, job::parse_flags(line.job, call.environment));
  for (const std::string& note : parsed.notes) show_note(note);
  const Log log = Log::to_stderr("input", static_cast<int>(parsed.flags.launch.verbose));
  DT_TRY(const bench::BenchInputResult result, bench::bench_input(parsed.flags, bench_options(line.options), log));
  if (!line.options.json) std::fputs(result.text().c_str(), stderr);
  fmt::print("{}\n", result.json());
  return 0;
}

}  // namespace dtrain::cmd
