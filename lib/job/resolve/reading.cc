#include "job/resolve/reading.h"

#include "job/flags/flags.h"

namespace dtrain::job {
namespace {

Result<> check_synthetic(const Flags& flags) {
  if (!flags.device.synthetic_on_device) return {};
  if (!flags.job.augment.benchmark) {
    return fail(
        Code::kUsage,
        "--synthetic-on gpu only has an effect with --benchmark 1: give --benchmark 1, or leave out --synthetic-on");
  }
  if (flags.device.gpus.empty()) {
    return fail(Code::kUsage,
                "--synthetic-on gpu needs a GPU: give its number with --gpus, or use --synthetic-on cpu, because CPU "
                "devices read the batch from host memory");
  }
  return {};
}

Result<> resolve_test_io(Flags& flags) {
  LoopFlags& loop = flags.loop;
  if (!loop.test_io) return {};
  const char* flag = loop.load_epoch                    ? "load-epoch"
                     : loop.retrain                     ? "retrain"
                     : !loop.resume.empty()             ? "resume"
                     : !loop.pretrained_model.empty()   ? "pretrained-model"
                     : !flags.device.check.empty()      ? "check"
                     : flags.device.synthetic_on_device ? "synthetic-on"
                     : flags.launch.trace_steps > 0     ? "trace"
                     : loop.monitor > 0                 ? "monitor"
                                                        : nullptr;
  if (flag != nullptr) {
    return fail(Code::kUsage, "--test-io 1 reads the training data once and does not train: leave out --{}", flag);
  }
  if (flags.data.data_threads_auto) {
    return fail(Code::kUsage,
                "--data-nthreads auto divides threads between decoding and training, but --test-io 1 does not train: "
                "give a number");
  }
  flags.job.num_epochs = 1;
  return {};
}

// Adds a note for named files that are not read, because a user who names files expects to train on them.
void note_unread_files(const Flags& flags, std::vector<std::string>& notes) {
  if (!flags.job.augment.benchmark) return;
  std::string unread;
  for (const char* flag : {"data-dir", "data-train", "data-val", "data-train-idx", "data-val-idx", "mean-img"}) {
    if (flags.source(flag) == Source::kCommandLine) unread += fmt::format("{}--{}", unread.empty() ? "" : ", ", flag);
  }
  if (unread.empty()) return;
  notes.push_back(fmt::format("--benchmark 1 trains on synthetic data, not on the files of {}", unread));
}

}  // namespace

std::vector<std::string> reading_notes(const Flags& flags) {
  std::vector<std::string> notes;
  note_unread_files(flags, notes);
  if (flags.job.augment.shuffle_chunk > 0 && !flags.job.augment.shuffle) {
    notes.push_back(fmt::format("--shuffle-chunk-size {} has no effect with --shuffle 0, which reads records by number",
                                flags.job.augment.shuffle_chunk));
  }
  if (flags.job.scheme.resplit_every > 0 && flags.job.num_workers == 1) {
    notes.push_back(
        fmt::format("--resplit-every {} has no effect with one worker, which reads all records in each epoch",
                    flags.job.scheme.resplit_every));
  }
  return notes;
}

Result<> resolve_reading(Flags& flags) {
  DT_TRY_VOID(check_synthetic(flags));
  return resolve_test_io(flags);
}

}  // namespace dtrain::job
