#include "dataset/synth.h"
#include "tool.h"

namespace dtrain::cmd {

Result<int> data_synth(const Call& call) {
  using Options = dataset::SynthOptions;
  const job::FlagTable<Options> table({
      {.name = "out",
       .value = "DIR",
       .help = "directory to write train.rec, test.rec and their indexes to",
       .bind = DT_FIELD(Options, out),
       .default_text = "none; required"},
      {.name = "classes",
       .value = "N",
       .help = "number of classes",
       .bind = DT_FIELD(Options, classes),
       .min = 2,
       .max = 70},
      {.name = "count",
       .value = "N",
       .help = "number of training images; the test set has a quarter as many",
       .bind = DT_FIELD(Options, count),
       .min = 4,
       .max = 1e7},
      {.name = "size",
       .value = "N",
       .help = "width and height of an image in pixels",
       .bind = DT_FIELD(Options, size),
       .min = 16,
       .max = 512},
      {.name = "seed", .value = "N", .help = "seed of all random numbers", .bind = DT_FIELD(Options, seed)},
  });
  DT_TRY(const ToolLine<Options> line, read_tool_line(table, "dtrain data synth --out DIR [FLAGS]", call, 0, 0));
  if (line.help) return 0;
  if (line.options.out.empty()) return fail(Code::kUsage, "dtrain data synth: --out DIR is missing");
  DT_TRY_VOID(dataset::synthesize(line.options, tool_log("synth", call)));
  return 0;
}

}  // namespace dtrain::cmd
