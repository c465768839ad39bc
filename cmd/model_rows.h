// The flags that choose a trained model. Several commands share them.
#pragma once

#include <string>
#include <vector>

#include "infer/trained_model.h"
#include "tool.h"

namespace dtrain::cmd {

// The default that --help shows for a flag that overrides a value of the run that trained the model.
inline const std::string kOfModel = "the model's";

template <class Options>
job::FlagRow<Options> epoch_row() {
  return {.name = "load-epoch",
          .value = "N",
          .help = "use the checkpoint that was saved after N epochs",
          .bind = DT_FIELD(Options, model.epoch, "none"),
          .default_text = "the newest one",
          .min = 0,
          .max = job::kStepsMax};
}

// The flags that choose the model and its network. Options must have a member `infer::ModelChoice model`.
template <class Options>
std::vector<job::FlagRow<Options>> model_rows() {
  return {
      {.name = "model",
       .value = "MODEL",
       .help = "the trained model: a run directory, the prefix of checkpoints, or a .params file",
       .bind = DT_FIELD(Options, model.model, "required")},
      epoch_row<Options>(),
      training_row("network", DT_FIELD(Options, model.flags.job.network.network), kOfModel),
      training_row("num-layers", DT_FIELD(Options, model.flags.job.network.num_layers, "auto"), kOfModel),
      training_row("num-classes", DT_FIELD(Options, model.flags.job.network.num_classes, "auto"), kOfModel),
      training_row("image-shape", job::image_shape(DT_FIELD(Options, model.flags.job.network.image_shape, "auto")),
                   kOfModel),
  };
}

// The flags that determine how images are read and computed.
template <class Options>
std::vector<job::FlagRow<Options>> image_rows() {
  return {
      training_row("rgb-mean", DT_FIELD(Options, model.flags.job.augment.rgb_mean, "auto"), kOfModel),
      training_row("rgb-std", DT_FIELD(Options, model.flags.job.augment.rgb_std, "auto"), kOfModel),
      training_row("scale", DT_FIELD(Options, model.flags.job.augment.scale, "auto"), kOfModel),
      {.name = "mean-img",
       .value = "FILE",
       .help = "the mean image of the training data, for a model that was trained with one",
       .bind = DT_FIELD(Options, model.flags.data.mean_img, "none")},
      training_row("val-resize", DT_FIELD(Options, model.val_resize, "auto"), kOfModel),
      training_row("batch-size", DT_FIELD(Options, model.flags.job.batch_size)),
      {.name = "gpus",
       .aliases = {"--gpu"},
       .value = "N",
       .help = "number of the GPU that computes the model, instead of the CPU",
       .bind = DT_FIELD(Options, model.flags.device.gpus, "none"),
       .min = 0,
       .max = job::kGpuMax},
      training_row("threads", DT_FIELD(Options, model.flags.launch.threads, "auto"), "cores of the host"),
      training_row("data-nthreads", DT_FIELD(Options, model.flags.data.data_threads), "part of --threads"),
      training_row("max-bad-records", DT_FIELD(Options, model.flags.data.max_bad_records)),
  };
}

template <class Options>
std::vector<job::FlagRow<Options>> rows_together(std::vector<std::vector<job::FlagRow<Options>>> parts) {
  std::vector<job::FlagRow<Options>> all;
  for (std::vector<job::FlagRow<Options>>& part : parts) {
    for (job::FlagRow<Options>& row : part) all.push_back(std::move(row));
  }
  return all;
}

}  // namespace dtrain::cmd
