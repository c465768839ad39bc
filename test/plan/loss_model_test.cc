#include "plan/loss_model.h"

#include <cmath>
#include <numeric>

#include "support/catch.h"

using namespace dtrain::plan;

namespace {

constexpr double kHour = 3600;

// `workers` equal workers, which all wait for each other.
LossSetting setting_of(size_t workers, double hours, double mtbf_hours) {
  return {.work_s = hours * kHour,
          .epoch_s = hours * kHour,
          .share = std::vector<double>(workers, 1 / static_cast<double>(workers)),
          .group_of = std::vector<uint32_t>(workers, 0),
          .stands_still = true,
          .mtbf_s = mtbf_hours * kHour};
}

LossSetting without_waits(LossSetting setting) {
  std::iota(setting.group_of.begin(), setting.group_of.end(), 0);
  setting.stands_still = false;
  return setting;
}

LossCost mean_of(const LossSetting& setting, LossPolicy policy, uint64_t jobs) {
  LossCost mean;
  for (uint64_t seed = 0; seed < jobs; seed++) {
    const LossCost cost = job_with_losses(setting, policy, seed);
    REQUIRE(cost.finished);
    // Every second of a job is work, or counted as one of the costs.
    REQUIRE(cost.seconds == Approx(setting.work_s + cost.standing_s + cost.fewer_s + cost.repeated_s).epsilon(1e-9));
    mean.seconds += cost.seconds / static_cast<double>(jobs);
    mean.standing_s += cost.standing_s / static_cast<double>(jobs);
    mean.fewer_s += cost.fewer_s / static_cast<double>(jobs);
    mean.losses += cost.losses;
    mean.workers_at_end += cost.workers_at_end;
  }
  return mean;
}

}  // namespace

TEST_CASE("a job without losses takes its own time under each policy", "[plan]") {
  const LossSetting setting = setting_of(100, 1, 1e12);
  for (const LossPolicy policy : {LossPolicy::kWait, LossPolicy::kShrink, LossPolicy::kRestart}) {
    const LossCost cost = job_with_losses(setting, policy, 1);
    CHECK(cost.finished);
    CHECK(cost.seconds == setting.work_s);
    CHECK(cost.losses == 0);
    CHECK(cost.workers_at_end == 100);
  }
}

TEST_CASE("restarts cost what the formula for checkpoints says", "[plan]") {
  // The mean duration of a segment of length t between two checkpoints, with losses at the rate r and a restart of
  // duration s, which a loss begins anew, is (exp(r t) - 1) exp(r s) / r.
  const double rate = 50 / (200 * kHour), segment = 0.5 * kHour, start = 120;
  LossSetting setting = setting_of(50, 10, 200);
  setting.save_s = segment;
  setting.replace_s = start;
  const double expected = 20 * (std::exp(rate * segment) - 1) * std::exp(rate * start) / rate;
  CHECK(mean_of(setting, LossPolicy::kRestart, 2000).seconds == Approx(expected).epsilon(0.01));

  // Each epoch ends with a checkpoint.
  setting.save_s = 0;
  setting.epoch_s = segment;
  CHECK(mean_of(setting, LossPolicy::kRestart, 2000).seconds == Approx(expected).epsilon(0.01));
}

TEST_CASE("a scheduler that does not come back makes all start again, under each policy", "[plan]") {
  const double segment = 0.5 * kHour;
  const auto formula = [&](double rate, double start) {
    return 20 * (std::exp(rate * segment) - 1) * std::exp(rate * start) / rate;
  };
  LossSetting setting = setting_of(20, 10, 100);
  setting.save_s = segment;
  setting.replace_s = 120;
  for (const SchedulerLoss loss : {SchedulerLoss::kRestart, SchedulerLoss::kReturns}) {
    setting.scheduler = loss;
    const double rate = (loss == SchedulerLoss::kRestart ? 21 : 20) / (100 * kHour);
    CHECK(mean_of(setting, LossPolicy::kRestart, 4000).seconds == Approx(formula(rate, 120)).epsilon(0.01));
  }

  // If a worker is replaced at once, only the scheduler's losses cost anything.
  setting = setting_of(20, 10, 2);
  setting.save_s = segment;
  setting.scheduler = SchedulerLoss::kRestart;
  const double rate = 1 / (2 * kHour);
  CHECK(mean_of(setting, LossPolicy::kWait, 4000).seconds == Approx(formula(rate, 0)).epsilon(0.01));
}

TEST_CASE("a scheduler that comes back costs nothing, and counts as a loss", "[plan]") {
  LossSetting setting = setting_of(4, 10, 5);
  setting.scheduler = SchedulerLoss::kReturns;
  const LossCost cost = mean_of(setting, LossPolicy::kWait, 1000);
  CHECK(cost.seconds == Approx(setting.work_s));
  CHECK(static_cast<double>(cost.losses) / 1000 == Approx(10.0 / 5 * 5).epsilon(0.02));
}

TEST_CASE("workers that wait for a replacement stand still in all overlapping times", "[plan]") {
  // The seats are a queue with as many servers as guests: between two times in which all workers are there, the mean
  // standing time is (exp(r s) - 1) / r, where r is the rate of losses and s the time until a replacement trains.
  const double rate = 1000 / (2000 * kHour), replace = 600, notice = 60;
  LossSetting setting = setting_of(1000, 100, 2000);
  setting.replace_s = replace;
  setting.detect_s = notice;
  const double expected = setting.work_s * (std::exp(rate * (replace + notice)) - 1);
  const LossCost cost = mean_of(setting, LossPolicy::kWait, 400);
  CHECK(cost.standing_s == Approx(expected).epsilon(0.02));
  CHECK(cost.fewer_s == 0);
  CHECK(cost.workers_at_end == 400 * 1000);
}

TEST_CASE("workers that do not wait lose only the work of the missing ones", "[plan]") {
  // A seat is taken for the fraction mtbf / (mtbf + s) of the time.
  LossSetting setting = without_waits(setting_of(100, 1000, 20));
  setting.replace_s = 1.5 * kHour;
  setting.detect_s = 0.5 * kHour;
  const LossCost cost = mean_of(setting, LossPolicy::kWait, 20);
  CHECK(cost.seconds == Approx(setting.work_s * 22 / 20).epsilon(0.01));
  CHECK(cost.standing_s == 0);
}

TEST_CASE("a job that shrinks ends when its workers have done the work of all", "[plan]") {
  // In a time t, a worker that may be lost works mtbf (1 - exp(-t / mtbf)) on average.
  LossSetting setting = without_waits(setting_of(2000, 50, 100));
  const double seconds = -100 * std::log(1 - 50.0 / 100) * kHour;
  const LossCost cost = mean_of(setting, LossPolicy::kShrink, 50);
  CHECK(cost.seconds == Approx(seconds).epsilon(0.01));
  CHECK(static_cast<double>(cost.workers_at_end) / 50 == Approx(1000).epsilon(0.01));

  // All stand until a loss is noticed.
  LossSetting bound = setting_of(10, 1, 100);
  bound.detect_s = 30;
  const LossCost waits = mean_of(bound, LossPolicy::kShrink, 2000);
  CHECK(waits.standing_s * 2000 == Approx(30.0 * static_cast<double>(waits.losses)).epsilon(0.01));
}

TEST_CASE("in groups, only the group of a lost worker waits until the loss is noticed", "[plan]") {
  LossSetting setting = setting_of(4, 1, 50);
  setting.stands_still = false;
  setting.group_of = {0, 0, 0, 1};
  setting.detect_s = 60;
  setting.share = {0.2, 0.2, 0.2, 0.4};
  uint64_t checked = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    const LossCost cost = job_with_losses(setting, LossPolicy::kWait, seed);
    if (cost.losses != 1 || !cost.finished) continue;
    // replace_s is 0, so the group works again when the loss is noticed.
    const bool small = cost.fewer_s == Approx(60 * 0.4), large = cost.fewer_s == Approx(60 * 0.6);
    CHECK((small || large));
    checked++;
  }
  CHECK(checked > 5);
}

TEST_CASE("a job that cannot finish says so", "[plan]") {
  LossSetting setting = setting_of(100, 10, 10);
  setting.replace_s = 60;
  CHECK_FALSE(job_with_losses(setting, LossPolicy::kRestart, 1).finished);  // it has no checkpoint within 10 hours
  CHECK_FALSE(job_with_losses(setting_of(2, 10, 0.5), LossPolicy::kShrink, 1).finished);
  CHECK(job_with_losses(setting_of(2, 10, 0.5), LossPolicy::kShrink, 1).workers_at_end == 0);
}
