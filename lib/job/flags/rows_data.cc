// The flags of the data, the training loop, checkpoints and reports.
#include "job/flags/flags.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

std::string in_data_dir(std::string_view name) {
  return std::string(kInDataDir) + std::string(name);
}

std::vector<Row> file_rows() {
  return {
      {.name = "data-dir",
       .value = "DIR",
       .help = "directory with the files of the data set",
       .bind = DT_FIELD(Flags, data.data_dir, "none"),
       .default_text = "data/<data set> with --preset, otherwise none"},
      {.name = "data-type",
       .aliases = {"--dataset"},
       .value = "NAME",
       .help = "data set (mnist, cifar10, cifar100 or imagenet), or for any other data set the format of its files "
               "(idx, records or folder); files in a different format are refused",
       .bind = DT_FIELD(Flags, job.augment.data_type, "auto"),
       .default_text = "set by the preset, or recognized from the files in --data-dir",
       .choices = {"auto", "mnist", "cifar10", "cifar100", "imagenet", "idx", "records", "folder"},
       .scope = Scope::kJob},
      {.name = "data-train",
       .aliases = {Alias("--train-dataset", in_data_dir)},
       .value = "FILE",
       .help =
           "training data: a record file, several record files separated by semicolons (a.rec;b.rec), a directory of "
           "record files, an idx file of images, CIFAR's binary files, or a directory with one subdirectory of images "
           "per class; a relative path is relative to --data-dir; the name of a single file may contain a semicolon",
       .brief = "record files, or a directory with one subdirectory of images per class",
       .bind = DT_FIELD(Flags, data.data_train),
       .default_text = "by data set"},
      {.name = "data-val",
       .aliases = {Alias("--val-dataset", in_data_dir)},
       .value = "FILE",
       .help = "validation data, in the same forms as --data-train",
       .bind = DT_FIELD(Flags, data.data_val),
       .default_text = "by data set"},
      {.name = "data-train-idx",
       .value = "FILE",
       .help = "index file of the record file in --data-train",
       .bind = DT_FIELD(Flags, data.data_train_idx),
       .default_text = "next to the .rec file",
       .may_be_empty = true},
      {.name = "data-val-idx",
       .value = "FILE",
       .help = "index file of the record file in --data-val",
       .bind = DT_FIELD(Flags, data.data_val_idx),
       .default_text = "next to the .rec file",
       .may_be_empty = true},
      {.name = "path-imglist",
       .value = "FILE",
       .help = "file with the labels of the training records, in im2rec's list format (ID TAB LABEL TAB PATH); ID is "
               "the id of a record; a relative path is relative to the working directory",
       .bind = DT_FIELD(Flags, data.path_imglist),
       .default_text = "the labels in the records"},
      {.name = "label-width",
       .value = "N",
       .help = "number of labels per image: above 1 for records that im2rec packed with --pack-label; 2 for CIFAR-100 "
               "with its coarse and its fine labels",
       .bind = DT_FIELD(Flags, job.augment.label_width),
       .min = 1,
       .max = kLabelWidthMax,
       .scope = Scope::kJob},
  };
}

Binding<Flags> decode_threads() {
  Binding<Flags> binding = DT_FIELD(Flags, data.data_threads);
  binding.set = [number = binding.set](Flags& flags, std::string_view text) -> Result<> {
    flags.data.data_threads_auto = text == "auto";
    if (flags.data.data_threads_auto) return number(flags, "0");
    if (number(flags, text)) return {};
    return fail(Code::kUsage, "'{}' is neither a number nor auto", text);
  };
  binding.get = [number = binding.get](const Flags& flags) {
    return flags.data.data_threads_auto ? "auto" : number(flags);
  };
  return binding;
}

Binding<Flags> synthetic_place() {
  return {.set = [](Flags& flags, std::string_view text) -> Result<> {
            flags.device.synthetic_on_device = text == "gpu";
            return {};
          },
          .get = [](const Flags& flags) { return flags.device.synthetic_on_device ? "gpu" : "cpu"; }};
}

std::vector<Row> reading_rows() {
  return {
      {.name = "num-examples",
       .value = "N",
       .help = "number of samples in an epoch",
       .bind = DT_FIELD(Flags, job.augment.num_examples, "auto"),
       .default_text = "number of records in the files",
       .min = 0,
       .max = kExamplesMax,
       .scope = Scope::kJob},
      {.name = "batch-size",
       .value = "B",
       .help = "number of samples in a batch of one worker; they are divided among the worker's devices",
       .brief = "number of samples in a batch of one worker",
       .bind = DT_FIELD(Flags, job.batch_size),
       .min = 1,
       .max = kBatchMax,
       .scope = Scope::kJob},
      {.name = "shuffle",
       .help = "read the training records in a new random order in each epoch, instead of the order of the files",
       .bind = DT_FIELD(Flags, job.augment.shuffle),
       .scope = Scope::kJob},
      {.name = "shuffle-chunk-size",
       .value = "MB",
       .help = "with --shuffle: divide the data into chunks of this many MiB of consecutive records, read the chunks "
               "in random order, and shuffle the records within each chunk; for disks that are slow at small reads; 0 "
               "means that all records are shuffled together",
       .bind = DT_FIELD(Flags, job.augment.shuffle_chunk),
       .min = 0,
       .max = 1e6,
       .scope = Scope::kJob},
      {.name = "data-nthreads",
       .value = "N|auto",
       .help = "number of threads that decode images; auto: start with the default, then use more or fewer if "
               "measurements during training show that steps get faster",
       .bind = decode_threads(),
       .default_text = "part of --threads",
       .min = 0,
       .max = kThreadsMax,
       .suggestions = {"auto"}},
      {.name = "prefetch-buffer",
       .value = "N",
       .help = "number of batches to prepare ahead",
       .bind = DT_FIELD(Flags, data.prefetch_buffer),
       .min = 1,
       .max = 1024},
      {.name = "max-bad-records",
       .value = "N",
       .help = "largest number of corrupt records to skip; if there are more, the run fails",
       .bind = DT_FIELD(Flags, data.max_bad_records),
       .min = 0,
       .max = kExamplesMax},
      {.name = "benchmark",
       .help = "train on synthetic data instead of a data set, to measure the speed",
       .bind = DT_FIELD(Flags, job.augment.benchmark),
       .scope = Scope::kJob},
      {.name = "synthetic-on",
       .value = "cpu|gpu",
       .help = "with --benchmark: where the synthetic batch is kept: in the host's memory (cpu), from which every step "
               "copies it to the GPUs, or in the GPUs' memory (gpu), to which it is copied only once",
       .bind = synthetic_place(),
       .choices = {"cpu", "gpu"}},
      {.name = "test-io",
       .help = "read the training data once and show the speed, without training",
       .bind = DT_FIELD(Flags, loop.test_io)},
      {.name = "num-batches",
       .value = "N",
       .help = "with --benchmark: number of batches in an epoch of one worker",
       .bind = DT_FIELD(Flags, job.augment.num_batches, "auto"),
       .default_text = "the number of examples, divided by --batch-size and by the number of workers",
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> data_rows() {
  std::vector<Row> rows = file_rows();
  for (Row& row : reading_rows()) rows.push_back(std::move(row));
  return rows;
}

namespace {

std::vector<Row> checkpoint_rows() {
  return {
      {.name = "model-prefix",
       .value = "PREFIX",
       .help = "prefix of the checkpoint files that are saved and loaded",
       .bind = DT_FIELD(Flags, loop.model_prefix),
       .default_text = "<run-dir>/<network>"},
      {.name = "save-model-prefix",
       .value = "PREFIX",
       .help = "prefix of the checkpoint files that are saved",
       .bind = DT_FIELD(Flags, loop.save_model_prefix),
       .default_text = "the value of --model-prefix"},
      {.name = "load-epoch",
       .aliases = {"--model-load-epoch"},
       .value = "N",
       .help = "start from the checkpoint that was saved after N epochs",
       .bind = DT_FIELD(Flags, loop.load_epoch, "none"),
       .min = 0,
       .max = kEpochsMax},
      {.name = "pretrained-model",
       .value = "MODEL",
       .help = "trained model to fine-tune: a run directory, a prefix of checkpoint files with --load-epoch N, or a "
               ".params file; without --network, the network is that of the run that trained the model",
       .brief = "trained model to fine-tune: a run directory or a .params file",
       .bind = DT_FIELD(Flags, loop.pretrained_model, "none")},
      {.name = "resume",
       .value = "auto|DIR",
       .help =
           "continue the run in the run directory DIR (no other flags are needed); auto: continue the run in "
           "--run-dir, or without --run-dir the newest run of this job under runs/; if there is none, start a new run",
       .brief = "continue the run in DIR; auto: continue the newest run of this job",
       .bind = DT_FIELD(Flags, loop.resume, "none")},
      {.name = "retrain",
       .help = "continue a run as --resume auto does, but fail if there is no run to continue; with --load-epoch N, "
               "start from the checkpoint of epoch N",
       .bind = DT_FIELD(Flags, loop.retrain)},
      {.name = "save-period",
       .aliases = {Alias(
           "--savemodel", [](std::string_view on) { return std::string(on); }, true)},
       .value = "N",
       .help = "number of epochs between checkpoints; 0 means no checkpoints; --savemodel without a value means 1",
       .bind = DT_FIELD(Flags, loop.save_period),
       .min = 0,
       .max = kEpochsMax},
      {.name = "save-every",
       .value = "TIME",
       .help = "time between checkpoints within an epoch (files PREFIX-last.*)",
       .bind = DT_FIELD(Flags, loop.save_every, "off"),
       .min = 0,
       .max = kSecondsMax},
      {.name = "save-optimizer-states",
       .help = "save the optimizer's state with each checkpoint",
       .bind = DT_FIELD(Flags, loop.save_optimizer_states)},
      {.name = "keep",
       .value = "N",
       .help = "keep the last N of the checkpoints that are written at the ends of epochs, and delete older ones that "
               "this run has written; 0 keeps all",
       .bind = DT_FIELD(Flags, loop.keep),
       .min = 0,
       .max = kEpochsMax},
  };
}

std::vector<Row> report_rows() {
  return {
      {.name = "eval-batches-interval",
       .value = "N",
       .help = "also validate after every N steps of an epoch; 0 means only at the end of the epoch",
       .bind = DT_FIELD(Flags, job.eval_batches_interval),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
      {.name = "time-batches-after",
       .value = "N",
       .help = "time each batch after the first N, and write the times to batch-times-RANK.json at the end of the run",
       .bind = DT_FIELD(Flags, job.time_batches_after, "off"),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
      {.name = "disp-batches",
       .aliases = {"--frequent"},
       .value = "N",
       .help = "number of steps between two log lines that show the speed",
       .bind = DT_FIELD(Flags, loop.disp_batches),
       .min = 1,
       .max = kStepsMax},
      {.name = "monitor",
       .value = "N",
       .help = "print the root mean square of each output, weight, gradient and statistic after the first of every N "
               "steps; these steps are slow",
       .bind = DT_FIELD(Flags, loop.monitor, "0"),
       .min = 0,
       .max = kStepsMax},
      {.name = "trace",
       .value = "N",
       .help = "record what all processes do during N steps after the first 5, and write it to trace.json in the run "
               "directory, for chrome://tracing or ui.perfetto.dev; SIGUSR2 starts a recording in a running job",
       .bind = DT_FIELD(Flags, launch.trace_steps, "0"),
       .min = 0,
       .max = 1000},
      {.name = "log-format",
       .value = "1.9|legacy",
       .help = "show MXNet's log lines also on a terminal; the speed is printed as by MXNet 1.4 and newer (1.9) or as "
               "by older versions (legacy)",
       .bind = DT_FIELD(Flags, loop.log_format)},
      {.name = "log-file",
       .value = "FILE",
       .help = "write a copy of the log to FILE; a relative path is relative to the run directory",
       .bind = DT_FIELD(Flags, loop.log_file, "none")},
      {.name = "top-k",
       .value = "K,K",
       .help = "also report how often the label is among the K most probable classes",
       .bind = DT_FIELD(Flags, job.top_k, "0"),
       .min = 1,
       .max = kClassesMax,
       .scope = Scope::kJob},
      {.name = "loss",
       .value = "ce,nll",
       .help = "also report the cross-entropy: ce (or crossentropy) under the name cross-entropy, nll (or nll_loss) "
               "under the name nll-loss",
       .bind = DT_FIELD(Flags, job.loss, "none"),
       .scope = Scope::kJob},
      {.name = "seed",
       .value = "N",
       .help = "seed of all random numbers",
       .bind = DT_FIELD(Flags, job.seed, "auto"),
       .default_text = "random; printed and saved in the JobSpec",
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> loop_rows() {
  std::vector<Row> rows = checkpoint_rows();
  for (Row& row : report_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace dtrain::job
