#include "infer/info.h"

#include "model_rows.h"
#include "output.h"

namespace dtrain::cmd {

namespace {

struct InfoOptions : infer::InfoOptions {
  bool json = false;
};

job::FlagTable<InfoOptions> info_flags() {
  const std::string usual = "the model's, or the usual shape for the network";
  return {{
      epoch_row<InfoOptions>(),
      training_row("num-layers", DT_FIELD(InfoOptions, model.flags.job.network.num_layers, "auto"), usual),
      training_row("num-classes", DT_FIELD(InfoOptions, model.flags.job.network.num_classes, "auto"), usual),
      training_row("image-shape", job::image_shape(DT_FIELD(InfoOptions, model.flags.job.network.image_shape, "auto")),
                   usual),
      {.name = "batch-size",
       .value = "B",
       .help = "batch size for which the memory of the activations is computed",
       .bind = DT_FIELD(InfoOptions, model.flags.job.batch_size),
       .min = 1,
       .max = job::kBatchMax},
      {.name = "json", .help = "print one line of JSON", .bind = DT_FIELD(InfoOptions, json)},
  }};
}

constexpr const char* kInfoUsage =
    "dtrain info NETWORK|FILE [FLAGS]\n"
    "NETWORK: a network's name as for --network, a symbol file, a run directory, or the prefix of checkpoints.\n"
    "FILE: a .params, .states, .onnx or .safetensors file; its arrays are listed, and what it says about its network";

}  // namespace

Result<int> info(const Call& call) {
  DT_TRY(ToolLine<InfoOptions> line, read_tool_line(info_flags(), kInfoUsage, call, 1, 1));
  if (line.help) return 0;
  line.options.subject = line.positionals[0];
  DT_TRY(const std::string text, infer::info(line.options, line.options.json, Log::to_stderr("info")));
  DT_TRY(OutputFile output, OutputFile::open(""));
  DT_TRY_VOID(output.write(text));
  DT_TRY_VOID(output.finish());
  return 0;
}

}  // namespace dtrain::cmd
