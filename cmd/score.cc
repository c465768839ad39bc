#include "infer/score.h"

#include <unistd.h>

#include "model_rows.h"
#include "notes.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct ScoreOptions : infer::ScoreOptions {
  bool json = false;
  std::string log_format;  // the value of --log-format; empty if it is not given
};

std::vector<job::FlagRow<ScoreOptions>> score_data_rows() {
  return {
      training_row("data-dir", DT_FIELD(ScoreOptions, model.flags.data.data_dir), "the run's"),
      {.name = "data-val",
       .value = "FILE",
       .help = "the images: a .rec file, a directory with one subdirectory of images per class, or an idx file",
       .bind = DT_FIELD(ScoreOptions, model.flags.data.data_val),
       .default_text = "the validation data in --data-dir, or of the run"},
      training_row("data-val-idx", DT_FIELD(ScoreOptions, model.flags.data.data_val_idx), "next to the .rec file"),
      training_row("label-width", DT_FIELD(ScoreOptions, model.flags.job.augment.label_width), kOfModel),
  };
}

job::FlagRow<ScoreOptions> log_format_row() {
  return {.name = "log-format",
          .value = "1.9|legacy",
          .help =
              "print the lines of MXNet's score.py also on a terminal; both values have the same effect, because all "
              "versions of MXNet print the same lines",
          .bind = DT_FIELD(ScoreOptions, log_format),
          .default_text = "a table on a terminal, score.py's lines elsewhere",
          .choices = {"1.9", "legacy"}};
}

job::FlagTable<ScoreOptions> score_flags() {
  return {rows_together<ScoreOptions>({model_rows<ScoreOptions>(),
                                       score_data_rows(),
                                       image_rows<ScoreOptions>(),
                                       {json_row(DT_FIELD(ScoreOptions, json)), log_format_row()}}),
          {}};
}

}  // namespace

Result<int> score(const Call& call) {
  DT_TRY(const ToolLine<ScoreOptions> line,
         read_tool_line(score_flags(), "dtrain score --model MODEL [FLAGS]", call, 0, 0));
  if (line.help) return 0;
  note_threads(line.options.model.flags.launch.threads);
  DT_TRY(const infer::Score result, infer::score(line.options, tool_log("score", call)));
  const bool shows_table = ::isatty(STDOUT_FILENO) != 0 && line.options.log_format.empty();
  fmt::print("{}", line.options.json ? result.json() + "\n" : shows_table ? result.table() : result.text());
  return 0;
}

}  // namespace dtrain::cmd
