#include "tools/score.h"

#include "notes.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct Options {
  tools::ScoreOptions score;
  bool json = false;
};

const std::string kOfModel = "the model's";

std::vector<job::FlagRow<Options>> rows() {
  return {
      {.name = "model",
       .value = "MODEL",
       .help = "the trained model: a run directory, the prefix of checkpoints, or a .params file",
       .bind = DT_FIELD(Options, score.model, "required")},
      {.name = "load-epoch",
       .value = "N",
       .help = "take the checkpoint that was saved after N epochs",
       .bind = DT_FIELD(Options, score.epoch, "none"),
       .default_text = "the newest one",
       .min = 0,
       .max = job::kStepsMax},
      training_row("data-dir", DT_FIELD(Options, score.flags.data.data_dir), "none"),
      {.name = "data-val",
       .value = "FILE",
       .help = "the pictures: a .rec file, a folder with a folder of pictures for each class, or an idx file",
       .bind = DT_FIELD(Options, score.flags.data.data_val),
       .default_text = "the validation data in --data-dir"},
      training_row("data-val-idx", DT_FIELD(Options, score.flags.data.data_val_idx), "next to the .rec file"),
      training_row("network", DT_FIELD(Options, score.flags.job.network.network), kOfModel),
      training_row("num-layers", DT_FIELD(Options, score.flags.job.network.num_layers, "auto"), kOfModel),
      training_row("num-classes", DT_FIELD(Options, score.flags.job.network.num_classes, "auto"), kOfModel),
      training_row("image-shape", DT_FIELD(Options, score.flags.job.network.image_shape, "auto"), kOfModel),
      training_row("rgb-mean", DT_FIELD(Options, score.flags.job.augment.rgb_mean, "auto"), kOfModel),
      training_row("rgb-std", DT_FIELD(Options, score.flags.job.augment.rgb_std, "auto"), kOfModel),
      training_row("scale", DT_FIELD(Options, score.flags.job.augment.scale, "auto"), kOfModel),
      training_row("mean-img", DT_FIELD(Options, score.flags.data.mean_img, "none")),
      training_row("val-resize", DT_FIELD(Options, score.flags.job.augment.val_resize, "off"), kOfModel),
      training_row("batch-size", DT_FIELD(Options, score.flags.job.batch_size)),
      training_row("threads", DT_FIELD(Options, score.flags.launch.threads, "auto"), "cores of the host"),
      training_row("data-nthreads", DT_FIELD(Options, score.flags.data.data_threads), "part of --threads"),
      training_row("max-bad-records", DT_FIELD(Options, score.flags.data.max_bad_records)),
      json_row(DT_FIELD(Options, json)),
  };
}

job::FlagTable<Options> flags() {
  return {rows(),
          {{{"--gpus", "--gpu"},
            "is refused, because this version scores on CPUs only; leave out the flag",
            Code::kDevice}}};
}

}  // namespace

Result<int> score(const Call& call) {
  DT_TRY(const ToolLine<Options> line, read_tool_line(flags(), "dtrain score --model MODEL [FLAGS]", call, 0, 0));
  if (line.help) return 0;
  note_threads(line.options.score.flags.launch.threads);
  DT_TRY(const tools::Score result, tools::score(line.options.score, Log::to_stderr("score")));
  fmt::print("{}", line.options.json ? result.json() + "\n" : result.text());
  return 0;
}

}  // namespace dtrain::cmd
