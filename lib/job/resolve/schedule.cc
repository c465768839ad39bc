#include "job/resolve/schedule.h"

#include <algorithm>

#include "job/flags/flags.h"
#include "job/flags/optimizers.h"
#include "job/flags/value.h"
#include "job/resolve/data_set.h"
#include "job/resolve/optimizer.h"

namespace dtrain::job {

namespace {

// If both --lr-step-epochs and --lr-factor-epoch are given, the one from the stronger source wins.
Result<> choose_companion(Flags& flags) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  if (optimizer.lr_step_epochs.empty() || optimizer.lr_factor_epoch == 0) return {};
  const Source steps = flags.source("lr-step-epochs"), every = flags.source("lr-factor-epoch");
  if (steps == every) {
    return fail(Code::kUsage,
                "--lr-step-epochs and --lr-factor-epoch both set when --lr-factor applies: give one of them");
  }
  if (steps > every) {
    optimizer.lr_factor_epoch = 0;
  } else {
    optimizer.lr_step_epochs.clear();
  }
  return {};
}

// Ignores flags that only step schedules use. Refuses them if their source is at least as strong as `source`.
Result<> drop_steps(Flags& flags, std::string_view because, Source source) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  for (const char* name : {"lr-factor", "lr-step-epochs", "lr-factor-epoch"}) {
    const bool is_power = name == std::string_view("lr-step-epochs") && optimizer.lr_power > 0;
    const bool is_constant = name == std::string_view("lr-factor") && optimizer.lr_factor.value_or(1) >= 1;
    if (is_power || is_constant || !flags.given(name) || flags.source(name) < source) continue;
    if (flags.source(name) == Source::kResumed) continue;  // the stored flags of a run never contradict each other
    return fail(Code::kUsage, "{} and --{} exclude each other: give one of them", because, name);
  }
  optimizer.lr_factor = 1;
  optimizer.lr_step_epochs.clear();
  optimizer.lr_factor_epoch = 0;
  return {};
}

bool has_stronger_steps(const Flags& flags) {
  const OptimizerFlags& optimizer = flags.job.optimizer;
  const auto is_stronger = [&](const char* name) { return flags.source(name) > flags.source("lr-scheduler"); };
  return (is_stronger("lr-step-epochs") && optimizer.lr_power == 0) || is_stronger("lr-factor") ||
         is_stronger("lr-factor-epoch");
}

// Decides between steps, poly and cosine. Afterwards lr_scheduler is kAuto, kPoly or kCosine.
Result<> choose_scheduler(Flags& flags) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  const Source named = flags.source("lr-scheduler"), steps = flags.source("lr-step-epochs");
  if (optimizer.lr_power > 0 && optimizer.lr_scheduler != LrScheduler::kPoly) {
    if (optimizer.lr_scheduler != LrScheduler::kAuto && named >= steps) {
      return fail(Code::kUsage, "--lr-step-epochs {} is a polynomial: leave out --lr-scheduler {}",
                  "pow" + format_value(optimizer.lr_power), format_value(optimizer.lr_scheduler));
    }
    optimizer.lr_scheduler = LrScheduler::kPoly;
  }
  if (optimizer.lr_scheduler != LrScheduler::kPoly) optimizer.lr_power = 0;
  switch (optimizer.lr_scheduler) {
    case LrScheduler::kAuto: return {};
    case LrScheduler::kFactor:
      if (!optimizer.lr_factor || !optimizer.lr_step_epochs.empty()) {
        return fail(Code::kUsage, "--lr-scheduler factor needs --lr-factor, and no --lr-step-epochs");
      }
      optimizer.lr_scheduler = LrScheduler::kAuto;
      return {};
    case LrScheduler::kMultifactor:
      if (optimizer.lr_step_epochs.empty() || optimizer.lr_factor_epoch > 0) {
        return fail(Code::kUsage, "--lr-scheduler multifactor needs --lr-step-epochs, and no --lr-factor-epoch");
      }
      optimizer.lr_scheduler = LrScheduler::kAuto;
      return {};
    case LrScheduler::kPoly:
    case LrScheduler::kCosine: break;
  }
  if (optimizer.lr_power == 0 && has_stronger_steps(flags)) {
    optimizer.lr_scheduler = LrScheduler::kAuto;
    return {};
  }
  if (optimizer.lr_scheduler == LrScheduler::kPoly && optimizer.lr_power == 0) optimizer.lr_power = 2;
  const bool by_power = optimizer.lr_scheduler == LrScheduler::kPoly && flags.given("lr-step-epochs") && steps > named;
  return drop_steps(flags,
                    by_power ? "--lr-step-epochs powP" : "--lr-scheduler " + format_value(optimizer.lr_scheduler),
                    by_power ? steps : named);
}

Result<> check_warmup(const OptimizerFlags& optimizer, int64_t num_epochs) {
  if (optimizer.lr_warmup_epochs == 0 && optimizer.lr_warmup_begin > 0) {
    return fail(Code::kUsage, "--lr-warmup-begin {} has no effect without --lr-warmup-epochs",
                optimizer.lr_warmup_begin);
  }
  if (optimizer.lr_warmup_begin > optimizer.lr) {
    return fail(
        Code::kUsage,
        "--lr-warmup-begin {}: the learning rate rises during the warm-up, so this value must not be above --lr {}",
        optimizer.lr_warmup_begin, optimizer.lr);
  }
  if (optimizer.lr_scheduler != LrScheduler::kAuto && optimizer.lr_warmup_epochs >= static_cast<double>(num_epochs)) {
    return fail(Code::kUsage,
                "--lr-warmup-epochs {}: --lr-scheduler {} needs epochs after the warm-up, so the value must be less "
                "than --num-epochs {}",
                optimizer.lr_warmup_epochs, format_value(optimizer.lr_scheduler), num_epochs);
  }
  return {};
}

Result<> resolve_steps(Flags& flags) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  if (optimizer.lr_factor && *optimizer.lr_factor <= 0) {
    return fail(Code::kUsage, "--lr-factor {}: it must be above 0", *optimizer.lr_factor);
  }
  if (!std::is_sorted(optimizer.lr_step_epochs.begin(), optimizer.lr_step_epochs.end())) {
    return fail(Code::kUsage, "--lr-step-epochs {}: the epochs must be in ascending order",
                format_value(optimizer.lr_step_epochs));
  }
  const bool steps = !optimizer.lr_step_epochs.empty();
  const auto is_new = [&](const char* flag) { return flags.source(flag) > Source::kResumed; };
  const bool was_constant = flags.source("lr-factor") == Source::kResumed && optimizer.lr_factor.value_or(1) >= 1;
  if (was_constant && ((steps && is_new("lr-step-epochs")) || is_new("lr-factor-epoch"))) optimizer.lr_factor.reset();
  const bool no_steps = !steps && flags.given("lr-step-epochs") && optimizer.lr_factor_epoch == 0 &&
                        flags.source("lr-step-epochs") >= flags.source("lr-factor");
  if (no_steps) optimizer.lr_factor = 1;  // an explicitly empty list means a constant rate
  if (!optimizer.lr_factor && optimizer.lr_factor_epoch > 0) {
    return fail(Code::kUsage, "--lr-factor-epoch needs --lr-factor, which is missing");
  }
  if (!optimizer.lr_factor) optimizer.lr_factor = steps ? 0.1 : 1.0;
  if (*optimizer.lr_factor >= 1) {  // a constant rate; all ways to ask for it give the same values
    optimizer.lr_factor = 1;
    optimizer.lr_step_epochs.clear();
    optimizer.lr_factor_epoch = 0;
  } else if (!steps && optimizer.lr_factor_epoch == 0) {
    optimizer.lr_factor_epoch = 1;
  }
  return {};
}

}  // namespace

Result<> resolve_schedule(Flags& flags) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  const NetworkFlags& network = flags.job.network;
  if (!flags.given("lr")) {
    optimizer.lr = optimizer_kind(optimizer.optimizer)
                       .learning_rate.value_or(default_learning_rate(network.network, network.num_layers));
  }
  DT_TRY_VOID(choose_companion(flags));
  DT_TRY_VOID(choose_scheduler(flags));
  DT_TRY_VOID(resolve_steps(flags));
  DT_TRY_VOID(check_warmup(optimizer, flags.job.num_epochs));
  if (optimizer.momentum >= 1) return fail(Code::kUsage, "--mom {}: it must be below 1", optimizer.momentum);
  return resolve_optimizer(flags);
}

}  // namespace dtrain::job
