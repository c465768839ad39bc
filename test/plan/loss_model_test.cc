#include "plan/loss_model.h"

#include <cmath>
#include <numeric>
#include <optional>

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain::plan;
using dtrain::RandomStream, dtrain::Use;

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
    mean.undone_s += cost.undone_s / static_cast<double>(jobs);
    mean.losses += cost.losses;
    mean.workers_at_end += cost.workers_at_end;
  }
  return mean;
}

constexpr LossPolicy kPolicies[] = {LossPolicy::kWait, LossPolicy::kShrink, LossPolicy::kRestart};

// A job of an hour with checkpoints every 450 s and snapshots every 100 s, which are usable 30 s later. A lost server
// is replaced after 70 s.
LossSetting with_servers(ServerLoss loss) {
  LossSetting setting = setting_of(4, 1, 10);
  setting.save_s = 450;
  setting.servers = 2;
  setting.server = loss;
  setting.snapshot_s = 100;
  setting.snapshot_write_s = 30;
  setting.detect_s = 10;
  setting.replace_s = 60;
  return setting;
}

// The work that the newest usable snapshot of with_servers() lacks, if its first one is `age_s` old.
double lacks_s(double age_s) {
  return age_s < 30 ? age_s : 30 + std::fmod(age_s - 30, 100);
}

// The random numbers of a job, in the order in which the model draws them.
class Draws {
 public:
  Draws(const LossSetting& setting, LossPolicy policy, uint64_t seed)
      : mtbf_s_(setting.mtbf_s), random_(seed, Use::kSimulation, static_cast<uint64_t>(policy), setting.share.size()) {}

  // The time until one of `processes` is lost.
  double loss_s(int64_t processes) {
    return -std::log(1 - random_.uniform()) * mtbf_s_ / static_cast<double>(processes);
  }
  // Whether it is a server, if 4 of the processes are workers and the others are servers.
  bool is_server(int64_t processes) { return random_.below(processes) >= 4; }

 private:
  double mtbf_s_;
  RandomStream random_;
};

// When a server is lost, in a job of with_servers() that loses nothing else; nullopt in other jobs.
std::optional<double> only_loss_s(const LossSetting& setting, LossPolicy policy, uint64_t seed) {
  Draws draws(setting, policy, seed);
  const double at_s = draws.loss_s(6);
  const bool is_only = draws.is_server(6) && job_with_losses(setting, policy, seed).losses == 1;
  return is_only ? std::optional(at_s) : std::nullopt;
}

}  // namespace

TEST_CASE("a job without losses takes its own time under each policy", "[plan]") {
  LossSetting setting = setting_of(100, 1, 1e12);
  setting.servers = 10;
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

TEST_CASE("a job whose servers are not lost costs what it did before servers could be lost", "[plan]") {
  LossSetting setting = setting_of(10, 20, 50);
  setting.epoch_s = kHour;
  setting.save_s = 600;
  setting.detect_s = 10;
  setting.replace_s = 60;
  setting.scheduler = SchedulerLoss::kReturns;
  const double seconds[] = {72210, 93873.12102721840, 73351.05472204692};
  for (size_t i = 0; i < 3; i++) CHECK(job_with_losses(setting, kPolicies[i], 7).seconds == Approx(seconds[i]));
  setting.scheduler = SchedulerLoss::kRestart;
  CHECK(job_with_losses(setting, LossPolicy::kShrink, 7).seconds == Approx(75415.47058169920));
  CHECK(job_with_losses(setting, LossPolicy::kRestart, 7).seconds == Approx(73650.04222365818));
}

TEST_CASE("the loss of a server costs the time of its replacement and what its snapshot lacks", "[plan]") {
  uint64_t older = 0, newest = 0;
  for (const LossPolicy policy : kPolicies) {
    for (uint64_t seed = 0; seed < 300; seed++) {
      const std::optional<double> at_s = only_loss_s(with_servers(ServerLoss::kGoBack), policy, seed);
      if (!at_s) continue;
      INFO(name_of(policy) << ", seed " << seed << ", at " << *at_s << " s");
      (std::fmod(*at_s, 100) < 30 ? older : newest)++;
      const LossCost back = job_with_losses(with_servers(ServerLoss::kGoBack), policy, seed);
      CHECK(back.repeated_s == Approx(lacks_s(*at_s)));
      CHECK(back.standing_s == Approx(70));
      CHECK(back.seconds == Approx(kHour + 70 + lacks_s(*at_s)));
      CHECK((back.undone_s == 0 && back.fewer_s == 0 && back.workers_at_end == 4));

      // The same loss, if no step is repeated.
      const LossCost on = job_with_losses(with_servers(ServerLoss::kContinue), policy, seed);
      CHECK(on.seconds == Approx(kHour + 70));
      CHECK(on.undone_s == Approx(lacks_s(*at_s)));
      CHECK(on.repeated_s == 0);
    }
  }
  CHECK(older > 10);
  CHECK(newest > 10);
}

TEST_CASE("without snapshots, the loss of a server makes all start again, under each policy", "[plan]") {
  uint64_t checked = 0;
  for (const LossPolicy policy : kPolicies) {
    for (uint64_t seed = 0; seed < 100; seed++) {
      const LossSetting setting = with_servers(ServerLoss::kRestart);
      const std::optional<double> at_s = only_loss_s(setting, policy, seed);
      if (!at_s) continue;
      const LossCost cost = job_with_losses(setting, policy, seed);
      CHECK(cost.repeated_s == Approx(std::fmod(*at_s, 450)));
      CHECK(cost.seconds == Approx(kHour + 70 + std::fmod(*at_s, 450)));
      checked++;
    }
  }
  CHECK(checked > 10);

  // A server that is lost while all start makes them start once more, as any process does.
  LossSetting setting = setting_of(10, 10, 20);
  setting.servers = 10;
  setting.save_s = 0.5 * kHour;
  setting.replace_s = kHour;
  const double rate = 20 / (20 * kHour);
  const double expected = 20 * (std::exp(rate * setting.save_s) - 1) * std::exp(rate * setting.replace_s) / rate;
  CHECK(mean_of(setting, LossPolicy::kRestart, 4000).seconds == Approx(expected).epsilon(0.01));
}

TEST_CASE("if a worker is lost too, all start again with new snapshots", "[plan]") {
  uint64_t while_away = 0, before = 0;
  for (uint64_t seed = 0; seed < 1000; seed++) {
    LossSetting setting = with_servers(ServerLoss::kGoBack);
    setting.replace_s = 600;
    const LossCost cost = job_with_losses(setting, LossPolicy::kRestart, seed);
    if (cost.losses != 2 || !cost.finished) continue;
    Draws draws(setting, LossPolicy::kRestart, seed);
    const double first_s = draws.loss_s(6);
    INFO("seed " << seed << ", first loss at " << first_s << " s");
    if (draws.is_server(6)) {
      const double away_s = draws.loss_s(5);
      if (away_s > 610 || draws.is_server(5)) continue;
      const double snapshot_s = first_s - lacks_s(first_s);
      CHECK(cost.standing_s == Approx(away_s + 610));
      CHECK(cost.repeated_s == Approx(lacks_s(first_s) + std::fmod(snapshot_s, 450)).margin(1e-9));
      while_away++;
    } else if (draws.loss_s(6) > 600) {
      const double second_s = draws.loss_s(6);
      if (!draws.is_server(6)) continue;
      CHECK(cost.standing_s == Approx(610 + 610));
      CHECK(cost.repeated_s == Approx(std::fmod(first_s, 450) + lacks_s(second_s)));
      before++;
    }
  }
  CHECK(while_away > 5);
  CHECK(before > 5);
}

TEST_CASE("a job goes back to the newest snapshot that can be used, also after several losses", "[plan]") {
  // If a worker is replaced at once, only the losses of servers cost anything. With losses at the rate r, a time t
  // passes without a loss with the probability exp(-r t), and the mean time until t has passed or a server is lost is
  // (1 - exp(-r t)) / r. `back`: the mean time to the end from a snapshot with n intervals to go, to which the job has
  // gone back. `ahead`: the same from the moment at which that snapshot becomes usable.
  LossSetting setting = setting_of(20, 10, 2);
  setting.servers = 4;
  setting.server = ServerLoss::kGoBack;
  setting.snapshot_s = 0.5 * kHour;
  setting.snapshot_write_s = 0.3 * kHour;
  const double rate = 4 / (2 * kHour), every_s = setting.snapshot_s, write_s = setting.snapshot_write_s;
  const auto passes = [&](double time_s) { return std::exp(-rate * time_s); };
  const auto mean_s = [&](double time_s, double then_s, double lost_s) {
    const double p = passes(time_s);
    return (1 - p) / rate + p * then_s + (1 - p) * lost_s;
  };
  double back = (1 / passes(every_s) - 1) / rate, ahead = mean_s(every_s - write_s, 0, back);
  for (int n = 2; n <= 20; n++) {
    back = (1 / passes(every_s + write_s) - 1) / rate + ahead;
    ahead = mean_s(every_s, ahead, back);
  }
  CHECK(mean_of(setting, LossPolicy::kWait, 4000).seconds == Approx(back).epsilon(0.01));
}

TEST_CASE("all stand still while any server is away", "[plan]") {
  // A process is there for the fraction mtbf / (mtbf + s) of the time, where s is the time until it is replaced, and
  // the job works while all workers and servers are there.
  LossSetting setting = setting_of(30, 1000, 200);
  setting.servers = 20;
  setting.server = ServerLoss::kContinue;
  setting.snapshot_s = kHour;
  setting.replace_s = 3 * kHour;
  const double there = std::pow(200.0 / 203, 50);
  CHECK(mean_of(setting, LossPolicy::kWait, 50).seconds == Approx(setting.work_s / there).epsilon(0.02));
}

TEST_CASE("a server that was replaced takes its snapshots from then on", "[plan]") {
  // The age of a server when it is lost is exponentially distributed with the mean m, and the next snapshot after its
  // replacement is taken t later: the mean of the age modulo t is m - t / (exp(t / m) - 1).
  LossSetting setting = setting_of(2, 500, 5);
  setting.servers = 3;
  setting.server = ServerLoss::kContinue;
  setting.snapshot_s = 5 * kHour;
  const double losses = 3 * 500.0 / 5, lacks_s = 5 * kHour * (1 - 1 / (std::exp(1) - 1));
  const LossCost cost = mean_of(setting, LossPolicy::kWait, 100);
  CHECK(cost.undone_s == Approx(losses * lacks_s).epsilon(0.02));
  CHECK(cost.seconds == Approx(setting.work_s));
}

TEST_CASE("losses of workers, servers and the scheduler mix under each policy", "[plan]") {
  for (const ServerLoss loss : {ServerLoss::kRestart, ServerLoss::kGoBack, ServerLoss::kContinue}) {
    for (const LossPolicy policy : kPolicies) {
      INFO(name_of(policy) << ", " << name_of(loss));
      LossSetting setting = setting_of(20, 10, 50);
      setting.save_s = 500;
      setting.servers = 10;
      setting.server = loss;
      setting.snapshot_s = 100;
      setting.detect_s = setting.replace_s = 60;
      setting.scheduler = SchedulerLoss::kRestart;
      const LossCost cost = mean_of(setting, policy, 200);  // checks the sums of each job
      CHECK(static_cast<double>(cost.losses) > 200.0);
      CHECK((cost.undone_s > 0) == (loss == ServerLoss::kContinue));
    }
  }
}

TEST_CASE("a job that cannot finish says so", "[plan]") {
  LossSetting setting = setting_of(100, 10, 10);
  setting.replace_s = 60;
  CHECK_FALSE(job_with_losses(setting, LossPolicy::kRestart, 1).finished);  // it has no checkpoint within 10 hours
  CHECK_FALSE(job_with_losses(setting_of(2, 10, 0.5), LossPolicy::kShrink, 1).finished);
  CHECK(job_with_losses(setting_of(2, 10, 0.5), LossPolicy::kShrink, 1).workers_at_end == 0);
}
