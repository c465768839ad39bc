#include "role/setup/update.h"

#include "job/flags/flags.h"
#include "job/flags/optimizers.h"

namespace dtrain::role {

optim::OptimizerSpec optimizer_spec(const job::JobFlags& flags) {
  Result<optim::OptimizerSpec> spec =
      optim::parse_optimizer(flags.optimizer.optimizer, {.momentum = flags.optimizer.momentum,
                                                         .weight_decay = flags.optimizer.weight_decay,
                                                         .clip_gradient = flags.optimizer.clip_gradient,
                                                         .seed = flags.seed.value_or(0)});
  DT_CHECK(spec.has_value(), "--optimizer {} passed the check of flags: {}", flags.optimizer.optimizer,
           spec.error().message);
  if (spec->name == "lbsgd") {
    spec->parameters = {{"batch_scale", static_cast<double>(job::accumulated_updates(flags))},
                        {"lars", flags.optimizer.warmup_strategy == job::WarmupStrategy::kLars ? 1 : 0}};
  }
  return *spec;
}

namespace {

optim::ScheduleSpec::Kind schedule_kind(job::LrScheduler scheduler) {
  using Kind = optim::ScheduleSpec::Kind;
  if (scheduler == job::LrScheduler::kPoly) return Kind::kPoly;
  return scheduler == job::LrScheduler::kCosine ? Kind::kCosine : Kind::kSteps;
}

// How the schedule accounts for lbsgd's large batch. The strategy lars computes its rates from norms, so its schedule
// keeps the rate for a single batch.
optim::ScheduleSpec::LargeBatch large_batch(const job::JobFlags& flags) {
  using Rise = optim::ScheduleSpec::LargeBatch::Rise;
  using Strategy = job::WarmupStrategy;
  const Strategy strategy = flags.optimizer.warmup_strategy;
  if (job::optimizer_name(flags.optimizer.optimizer) != "lbsgd" || strategy == Strategy::kLars) return {};
  const Rise rise = strategy == Strategy::kPower2 ? Rise::kSquare
                    : strategy == Strategy::kSqrt ? Rise::kSquareRoot
                    : strategy == Strategy::kNone ? Rise::kAtOnce
                                                  : Rise::kLinear;
  return {.scale = static_cast<double>(job::accumulated_updates(flags)),
          .warmup_epochs = flags.optimizer.warmup_epochs,
          .rise = rise};
}

}  // namespace

optim::ScheduleSpec schedule_spec(const job::JobFlags& flags) {
  return {.base = flags.optimizer.lr,
          .factor = flags.optimizer.lr_factor.value_or(1),
          .step_epochs = flags.optimizer.lr_step_epochs,
          .every_epochs = flags.optimizer.lr_factor_epoch,
          .kind = schedule_kind(flags.optimizer.lr_scheduler),
          .power = flags.optimizer.lr_power,
          .end_epochs = static_cast<double>(flags.num_epochs),
          .warmup_epochs = flags.optimizer.lr_warmup_epochs,
          .warmup_begin = flags.optimizer.lr_warmup_begin,
          .large_batch = large_batch(flags)};
}

kvstore::UpdateRule update_rule(const job::JobFlags& flags, const job::JobPlan& plan) {
  return {.optimizer = optimizer_spec(flags),
          .schedule = schedule_spec(flags),
          .samples_per_epoch = plan.samples_per_epoch};
}

kvstore::StalenessWeight staleness_weight(const job::JobFlags& flags, const job::JobPlan& plan) {
  using Rule = kvstore::StalenessWeight::Rule;
  if (plan.store.scheme != job::Scheme::kGsp) return {};
  const job::GspWeight& weight = flags.scheme.gsp_weight;
  switch (weight.rule) {
    case job::GspWeight::Rule::kNone: return {};
    case job::GspWeight::Rule::kInverse: return {Rule::kPower, 1};
    case job::GspWeight::Rule::kPower: return {Rule::kPower, weight.parameter};
    case job::GspWeight::Rule::kFloor: return {Rule::kFloor, weight.parameter};
  }
  return {};
}

}  // namespace dtrain::role
