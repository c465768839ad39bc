#include "infer/export.h"

#include "model_rows.h"
#include "output.h"

namespace dtrain::cmd {

namespace {

using Format = infer::ExportOptions::Format;

struct ExportOptions : infer::ExportOptions {
  std::string format_name = "auto", out;
};

job::FlagTable<ExportOptions> export_flags() {
  const std::vector<job::FlagRow<ExportOptions>> own = {
      {.name = "format",
       .value = "FORM",
       .help = "onnx (a model that other programs can run) or safetensors (only the arrays)",
       .bind = DT_FIELD(ExportOptions, format_name),
       .default_text = "from the file name extension of --out",
       .choices = {"onnx", "safetensors", "auto"}},
      {.name = "fold-batch-norm",
       .help = "fold batch norms into the convolutions and fully connected layers before them",
       .bind = DT_FIELD(ExportOptions, fold_batch_norm)},
      {.name = "out",
       .value = "FILE",
       .help = "write to this file, such as model.onnx or model.safetensors",
       .bind = DT_FIELD(ExportOptions, out),
       .default_text = "standard output"},
  };
  return {rows_together<ExportOptions>({model_rows<ExportOptions>(), own}),
          {{{"--gpus", "--gpu"}, "is refused, because export computes no images; leave out the flag", Code::kUsage}}};
}

constexpr const char* kExportUsage = "dtrain export --model MODEL --out FILE.onnx|FILE.safetensors [FLAGS]";

Result<Format> format_for(const ExportOptions& options) {
  if (options.format_name == "onnx") return Format::kOnnx;
  if (options.format_name == "safetensors") return Format::kSafetensors;
  const auto by_ending = infer::format_of(options.out);
  if (by_ending) return *by_ending;
  return fail(Code::kUsage,
              "--out {}: the format is unknown: use a name that ends in .onnx or .safetensors, or give --format",
              options.out.empty() ? "is missing, and" : options.out);
}

}  // namespace

Result<int> export_model(const Call& call) {
  DT_TRY(ToolLine<ExportOptions> line, read_tool_line(export_flags(), kExportUsage, call, 0, 0));
  if (line.help) return 0;
  ExportOptions& options = line.options;
  DT_TRY(options.format, format_for(options));
  const Log log = Log::to_stderr("export");
  DT_TRY(OutputFile output, OutputFile::open(options.out));
  DT_TRY(const infer::Exported exported,
         infer::export_model(
             options, [&](std::string_view piece) { return output.write(piece); }, log));
  DT_TRY_VOID(output.finish());
  log.info("{}: network {}, {} arrays{}", exported.params, exported.network, exported.arrays,
           exported.folded == 0 ? "" : fmt::format(", {} batch norms folded", exported.folded));
  return 0;
}

}  // namespace dtrain::cmd
