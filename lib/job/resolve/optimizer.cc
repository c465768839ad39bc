#include "job/resolve/optimizer.h"

#include <string>
#include <string_view>
#include <utility>

#include "job/flags/flags.h"
#include "job/flags/optimizers.h"

namespace dtrain::job {

namespace {

// Refuses flags that are given for an optimizer that does not use them. Flags that come from a preset are ignored.
Result<> drop_unused(Flags& flags) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  const std::string_view name = optimizer_name(optimizer.optimizer);
  const auto is_asked_for = [&](const char* flag) { return flags.source(flag) > Source::kPreset; };
  if (!optimizer_kind(name).takes_momentum && is_asked_for("mom") && flags.source("mom") != Source::kResumed) {
    return fail(Code::kUsage, "--mom {} has no effect with --optimizer {}, which does not use --mom: leave it out",
                optimizer.momentum, name);
  }
  if (name != "adadelta") return {};
  for (const char* flag :
       {"lr", "lr-factor", "lr-step-epochs", "lr-factor-epoch", "lr-scheduler", "lr-warmup-epochs"}) {
    if (!is_asked_for(flag) || flags.source(flag) == Source::kResumed) continue;
    return fail(Code::kUsage, "--{} has no effect with --optimizer adadelta, which has no learning rate: leave it out",
                flag);
  }
  optimizer.lr = 1;
  optimizer.lr_factor = 1;
  optimizer.lr_step_epochs.clear();
  optimizer.lr_factor_epoch = optimizer.lr_power = optimizer.lr_warmup_epochs = optimizer.lr_warmup_begin = 0;
  optimizer.lr_scheduler = LrScheduler::kAuto;
  return {};
}

// The defaults of lbsgd's flags are accepted with every optimizer, since the scripts of MXNet pass them.
Result<> check_large_batch(Flags& flags) {
  OptimizerFlags& optimizer = flags.job.optimizer;
  if (optimizer_name(optimizer.optimizer) == "lbsgd") return {};
  const OptimizerFlags defaults;
  const auto refused = [&](const char* flag, bool differs) {
    return differs && flags.source(flag) > Source::kPreset && flags.source(flag) != Source::kResumed;
  };
  for (const auto& [flag, differs] :
       {std::pair{"macrobatch-size", optimizer.macrobatch_size != defaults.macrobatch_size},
        {"warmup-epochs", optimizer.warmup_epochs != defaults.warmup_epochs},
        {"warmup-strategy", optimizer.warmup_strategy != defaults.warmup_strategy}}) {
    if (!refused(flag, differs)) continue;
    return fail(Code::kUsage, "--{} is only for --optimizer lbsgd, and the optimizer is {}{}", flag,
                optimizer.optimizer,
                std::string_view(flag) == "warmup-epochs" ? "; for other optimizers use --lr-warmup-epochs" : "");
  }
  optimizer.macrobatch_size = defaults.macrobatch_size;
  optimizer.warmup_epochs = defaults.warmup_epochs;
  optimizer.warmup_strategy = defaults.warmup_strategy;
  return {};
}

}  // namespace

Result<> resolve_optimizer(Flags& flags) {
  DT_TRY_VOID(check_large_batch(flags));
  return drop_unused(flags);
}

Result<> check_norms(const Flags& flags, const Store& store) {
  const OptimizerFlags& optimizer = flags.job.optimizer;
  const SchemeFlags& scheme = flags.job.scheme;
  if (!uses_norms(optimizer)) return {};
  const bool by_strategy = !optimizer_kind(optimizer.optimizer).uses_norms;
  const std::string asked =
      by_strategy ? "--warmup-strategy lars" : fmt::format("--optimizer {}", optimizer_name(optimizer.optimizer));
  if (scheme.update_on == UpdateOn::kStore || (store.servers && store.scheme != Scheme::kBsp)) {
    return fail(Code::kUsage,
                "{} needs the norms of whole arrays, but a server has only slices of them, so the workers must update "
                "the weights: use --kv-store dist_sync or allreduce, without --update-on store",
                asked);
  }
  if (scheme.backup > 0) {
    return fail(Code::kUsage,
                "{} with --backup {}: a late worker would miss updates of its own weights; leave out one of them",
                asked, scheme.backup);
  }
  return {};
}

}  // namespace dtrain::job
