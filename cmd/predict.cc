#include "infer/predict.h"

#include <iostream>

#include "model_rows.h"
#include "notes.h"
#include "output.h"

namespace dtrain::cmd {

namespace {

using Output = infer::PredictOptions::Output;

struct PredictOptions : infer::PredictOptions {
  std::string output_name = "table";
  std::string out;
};

std::vector<job::FlagRow<PredictOptions>> predict_output_rows() {
  return {
      {.name = "output",
       .value = "FORM",
       .help = "output format: one line of text (table) or of JSON (json) per image, or a NumPy array (npy) of the "
               "probabilities of all classes",
       .bind = DT_FIELD(PredictOptions, output_name),
       .choices = {"table", "json", "npy"}},
      {.name = "result",
       .value = "NAME",
       .help = "for a network with several outputs: the output to use, by its name in the symbol file",
       .bind = DT_FIELD(PredictOptions, result),
       .default_text = "the first one"},
      {.name = "top",
       .value = "K",
       .help = "print the K most probable classes",
       .bind = DT_FIELD(PredictOptions, top),
       .min = 1,
       .max = job::kClassesMax},
      {.name = "synset",
       .value = "FILE",
       .help = "the names of the classes, one on each line",
       .bind = DT_FIELD(PredictOptions, synset),
       .default_text = "synset.txt next to the model or its training data"},
      {.name = "out",
       .value = "FILE",
       .help = "write the output to this file",
       .bind = DT_FIELD(PredictOptions, out),
       .default_text = "standard output"},
  };
}

job::FlagTable<PredictOptions> predict_flags() {
  return {rows_together<PredictOptions>(
              {model_rows<PredictOptions>(), predict_output_rows(), image_rows<PredictOptions>()}),
          {}};
}

constexpr const char* kPredictUsage =
    "dtrain predict --model MODEL INPUT... [FLAGS]\n"
    "INPUT: an image file, a directory, a .rec file, an idx file, or - for a list of them on standard input";

}  // namespace

Result<int> predict(const Call& call) {
  DT_TRY(ToolLine<PredictOptions> line,
         read_tool_line(predict_flags(), kPredictUsage, call, 0, static_cast<size_t>(-1)));
  if (line.help) return 0;
  PredictOptions& options = line.options;
  options.output = options.output_name == "json"  ? Output::kJson
                   : options.output_name == "npy" ? Output::kNpy
                                                  : Output::kTable;
  DT_TRY(options.inputs, infer::with_lines_of(std::cin, line.positionals));
  note_threads(options.model.flags.launch.threads);
  const Log log = Log::to_stderr("predict");
  DT_TRY(OutputFile output, OutputFile::open(options.out));
  const auto write = [&](std::string_view piece) { return output.write(piece); };
  DT_TRY(const infer::Predicted predicted, infer::predict(options, write, log));
  DT_TRY_VOID(output.finish());
  if (predicted.bad_records > 0) {
    log.warn("{} of {} images could not be read and were left out", predicted.bad_records,
             predicted.images + predicted.bad_records);
  }
  return 0;
}

}  // namespace dtrain::cmd
