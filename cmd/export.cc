#include "tools/export.h"

#include "model_rows.h"
#include "output.h"

namespace dtrain::cmd {

namespace {

using Format = tools::ExportOptions::Format;

struct Options : tools::ExportOptions {
  std::string format_name = "auto", out;
};

job::FlagTable<Options> flags() {
  const std::vector<job::FlagRow<Options>> own = {
      {.name = "format",
       .value = "FORM",
       .help = "onnx: a model that other programs compute; safetensors: the arrays alone",
       .bind = DT_FIELD(Options, format_name),
       .default_text = "by the ending of --out",
       .choices = {"onnx", "safetensors", "auto"}},
      {.name = "fold-batch-norm",
       .help = "fold batch norms into the convolutions and fully connected layers before them",
       .bind = DT_FIELD(Options, fold_batch_norm)},
      {.name = "out",
       .value = "FILE",
       .help = "write to this file, such as model.onnx or model.safetensors",
       .bind = DT_FIELD(Options, out),
       .default_text = "standard output"},
  };
  return {joined<Options>({model_rows<Options>(), own}), refused_with_model()};
}

constexpr const char* kUsage = "dtrain export --model MODEL --out FILE.onnx|FILE.safetensors [FLAGS]";

Result<Format> format_for(const Options& options) {
  if (options.format_name == "onnx") return Format::kOnnx;
  if (options.format_name == "safetensors") return Format::kSafetensors;
  const auto by_ending = tools::format_of(options.out);
  if (by_ending) return *by_ending;
  return fail(Code::kUsage,
              "--out {}: the format is not known: use a name that ends in .onnx or .safetensors, or --format",
              options.out.empty() ? "is missing, and" : options.out);
}

}  // namespace

Result<int> export_model(const Call& call) {
  DT_TRY(ToolLine<Options> line, read_tool_line(flags(), kUsage, call, 0, 0));
  if (line.help) return 0;
  Options& options = line.options;
  DT_TRY(options.format, format_for(options));
  const Log log = Log::to_stderr("export");
  DT_TRY(OutputFile output, OutputFile::open(options.out));
  DT_TRY(const tools::Exported exported,
         tools::export_model(
             options, [&](std::string_view piece) { return output.write(piece); }, log));
  DT_TRY_VOID(output.finish());
  log.info("{}: network {}, {} arrays{}", exported.params, exported.network, exported.arrays,
           exported.folded == 0 ? "" : fmt::format(", {} batch norms folded", exported.folded));
  return 0;
}

}  // namespace dtrain::cmd
