#include "job/resolve/reading.h"

namespace dtrain::job {
namespace {

Result<> check_synthetic(const Flags& flags) {
  if (!flags.device.synthetic_on_device) return {};
  if (!flags.job.augment.benchmark) {
    return fail(Code::kUsage,
                "--synthetic-on gpu says where the batch of --benchmark 1 lies: give --benchmark 1, or leave it out");
  }
  if (flags.device.gpus.empty()) {
    return fail(Code::kUsage,
                "--synthetic-on gpu needs a GPU: give its number with --gpus, or use --synthetic-on cpu, because CPU "
                "devices read the batch where it lies");
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

}  // namespace

Result<> resolve_reading(Flags& flags) {
  DT_TRY_VOID(check_synthetic(flags));
  return resolve_test_io(flags);
}

}  // namespace dtrain::job
