#include "plan/loss_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace dtrain::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The time until the next of `processes` processes is lost.
double next_loss_s(RandomStream& random, const LossSetting& setting, size_t processes) {
  if (processes == 0) return kNever;
  return -std::log(1 - random.uniform()) * setting.mtbf_s / static_cast<double>(processes);
}

// How many schedulers may be lost.
size_t schedulers(const LossSetting& setting) {
  return setting.scheduler == SchedulerLoss::kNever ? 0 : 1;
}

bool is_too_long(const LossSetting& setting, const LossCost& cost) {
  return cost.seconds > kTooLong * setting.work_s;
}

// How much work is in the last checkpoint of a job that has begun with `begin_s` of the work and has done `done_s`.
double saved_work_s(const LossSetting& setting, double begin_s, double done_s) {
  const double made_s = done_s - begin_s;
  const double saved_s = setting.save_s > 0 ? std::floor(made_s / setting.save_s) * setting.save_s : 0;
  return std::max(begin_s + saved_s, std::floor(done_s / setting.epoch_s) * setting.epoch_s);
}

// All stand still from a loss until all train again. A process that is lost while all start makes them start once more.
void start_again(const LossSetting& setting, RandomStream& random, LossCost& cost) {
  const size_t processes = setting.share.size() + (setting.scheduler == SchedulerLoss::kRestart ? 1 : 0);
  for (bool is_started = false; !is_started && !is_too_long(setting, cost);) {
    cost.losses++;
    const double again_s = next_loss_s(random, setting, processes);
    const double stood_s = setting.detect_s + std::min(again_s, setting.replace_s);
    is_started = again_s >= setting.replace_s;
    cost.standing_s += stood_s;
    cost.seconds += stood_s;
  }
}

// What a job has done: when it last started, and now.
struct Work {
  double begin_s = 0, done_s = 0;
};

void go_back_to_checkpoint(const LossSetting& setting, RandomStream& random, Work& work, LossCost& cost) {
  work.begin_s = saved_work_s(setting, work.begin_s, work.done_s);
  cost.repeated_s += work.done_s - work.begin_s;
  work.done_s = work.begin_s;
  start_again(setting, random, cost);
}

// The job starts again from the last checkpoint after each loss.
LossCost restarted_job(const LossSetting& setting, RandomStream& random) {
  LossCost cost{.workers_at_end = setting.share.size()};
  const size_t workers = setting.share.size(), processes = workers + schedulers(setting);
  Work work;
  while (!is_too_long(setting, cost)) {
    const double loss_s = next_loss_s(random, setting, processes);
    if (loss_s >= setting.work_s - work.done_s) {
      cost.seconds += setting.work_s - work.done_s;
      cost.finished = true;
      return cost;
    }
    work.done_s += loss_s;
    cost.seconds += loss_s;
    const bool is_free = setting.scheduler == SchedulerLoss::kReturns &&
                         random.below(static_cast<int64_t>(processes)) == static_cast<int64_t>(workers);
    if (is_free) {
      cost.losses++;
      continue;
    }
    go_back_to_checkpoint(setting, random, work, cost);
  }
  return cost;
}

// A job that continues after a loss, with another worker in the place of the lost one or without it.
class ChangedJob {
 public:
  ChangedJob(const LossSetting& setting, LossPolicy policy, RandomStream& random)
      : setting_(setting), waits_(policy == LossPolicy::kWait), random_(random) {
    seat_all();
  }

  LossCost run() {
    double loss_s = next_loss_s(random_, setting_, live_.size() + schedulers(setting_));
    while (!is_too_long(setting_, cost_) && !live_.empty()) {
      const double rate = this->rate();
      const double detect_s = unseen_.empty() ? kNever : unseen_.front().at_s;
      const double return_s = away_.empty() ? kNever : away_.front().at_s;
      const double event_s = std::min({loss_s, detect_s, return_s});
      const double end_s = rate > 0 ? cost_.seconds + (setting_.work_s - work_.done_s) / rate : kNever;
      const double duration_s = std::min(event_s, end_s) - cost_.seconds;
      pass(duration_s, rate);
      if (end_s <= event_s) {
        cost_.finished = true;
        break;
      }
      work_.done_s += duration_s * rate;
      if (event_s == detect_s) {
        notice();
      } else if (event_s == return_s) {
        fill_seat();
      } else {
        lose();
      }
      // The distribution has no memory, so the time until the next loss may be drawn again after each event.
      loss_s = cost_.seconds + next_loss_s(random_, setting_, live_.size() + schedulers(setting_));
    }
    cost_.workers_at_end = live_.size();
    return cost_;
  }

 private:
  struct Group {
    double share = 0;     // of its live members
    uint64_t unseen = 0;  // losses of members that nobody has noticed
  };
  struct Seat {
    double at_s = 0;
    size_t worker = 0;
  };

  // All workers are there.
  void seat_all() {
    live_.resize(setting_.share.size());
    std::iota(live_.begin(), live_.end(), size_t{0});
    groups_.assign(1 + *std::max_element(setting_.group_of.begin(), setting_.group_of.end()), {});
    for (const size_t worker : live_) group_of(worker).share += setting_.share[worker];
    missing_ = 0;
    unseen_.clear();
    away_.clear();
  }

  Group& group_of(size_t worker) { return groups_[setting_.group_of[worker]]; }

  // The part of the work that the job does in a second.
  [[nodiscard]] double rate() const {
    const bool has_empty_seat = away_.size() > unseen_.size();  // one of which the job knows
    const double rate = 1 - missing_;
    constexpr double kRounding = 1e-9;
    return (waits_ && setting_.stands_still && has_empty_seat) || rate < kRounding ? 0 : rate;
  }

  void pass(double duration_s, double rate) {
    cost_.seconds += duration_s;
    (rate > 0 ? cost_.fewer_s : cost_.standing_s) += duration_s * (1 - rate);
  }

  void lose() {
    const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(live_.size() + schedulers(setting_))));
    if (at == live_.size()) return lose_scheduler();
    const size_t worker = live_[at];
    live_[at] = live_.back();
    live_.pop_back();
    cost_.losses++;
    Group& group = group_of(worker);
    missing_ += group.unseen == 0 ? group.share : 0;
    group.share -= setting_.share[worker];
    group.unseen++;
    unseen_.push_back({cost_.seconds + setting_.detect_s, worker});
    if (waits_) away_.push_back({cost_.seconds + setting_.detect_s + setting_.replace_s, worker});
  }

  void lose_scheduler() {
    if (setting_.scheduler == SchedulerLoss::kReturns) {
      cost_.losses++;
      return;
    }
    go_back_to_checkpoint(setting_, random_, work_, cost_);
    seat_all();
  }

  void notice() {
    Group& group = group_of(unseen_.front().worker);
    unseen_.pop_front();
    if (--group.unseen == 0) missing_ -= group.share;
  }

  void fill_seat() {
    const size_t worker = away_.front().worker;
    away_.pop_front();
    live_.push_back(worker);
    Group& group = group_of(worker);
    group.share += setting_.share[worker];
    if (group.unseen == 0) missing_ -= setting_.share[worker];
    if (live_.size() == setting_.share.size()) missing_ = 0;  // no sum of rounding errors
  }

  const LossSetting& setting_;
  const bool waits_;
  RandomStream& random_;
  LossCost cost_;
  Work work_;
  std::vector<size_t> live_;
  std::vector<Group> groups_;
  double missing_ = 0;            // the share of the lost workers, and of the groups that stand still
  std::deque<Seat> unseen_ = {};  // losses that nobody has noticed, with the times at which they will be
  std::deque<Seat> away_ = {};    // seats that wait for another worker, with the times at which it will train
};

}  // namespace

std::string_view name_of(LossPolicy policy) {
  switch (policy) {
    case LossPolicy::kWait: return "wait";
    case LossPolicy::kShrink: return "shrink";
    case LossPolicy::kRestart: return "restart";
  }
  DT_CHECK(false, "unknown policy");
}

LossCost job_with_losses(const LossSetting& setting, LossPolicy policy, uint64_t seed) {
  RandomStream random(seed, Use::kSimulation, static_cast<uint64_t>(policy), setting.share.size());
  if (policy == LossPolicy::kRestart) return restarted_job(setting, random);
  return ChangedJob(setting, policy, random).run();
}

}  // namespace dtrain::plan
