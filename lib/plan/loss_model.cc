#include "plan/loss_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>

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

// How much work is in the newest snapshot of a server, if its first one has `first_s` of the work and the job has done
// `done_s`. The first one can always be used.
double snapshot_work_s(const LossSetting& setting, double first_s, double done_s) {
  const double usable_s = std::max(done_s - setting.snapshot_write_s - first_s, 0.0);
  return first_s + std::floor(usable_s / setting.snapshot_s) * setting.snapshot_s;
}

// All stand still from a loss until all train again. A process that is lost while all start makes them start once more.
void start_again(const LossSetting& setting, RandomStream& random, LossCost& cost) {
  const size_t schedulers = setting.scheduler == SchedulerLoss::kRestart ? 1 : 0;
  const size_t processes = setting.share.size() + schedulers + setting.servers;
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

class JobWithLosses {
 public:
  JobWithLosses(const LossSetting& setting, LossPolicy policy, RandomStream& random)
      : setting_(setting), policy_(policy), random_(random) {
    seat_all();
  }

  LossCost run() {
    while (!is_too_long(setting_, cost_) && !live_.empty()) {
      const double rate = this->rate();
      // The distribution has no memory, so the time until the next loss may be drawn again after each event.
      const double loss_s = cost_.seconds + next_loss_s(random_, setting_, processes());
      const double detect_s = unseen_.empty() ? kNever : unseen_.front().at_s;
      const double return_s = away_.empty() ? kNever : away_.front().at_s;
      const double server_s = away_servers_.empty() ? kNever : away_servers_.front().at_s;
      const double event_s = std::min({loss_s, detect_s, return_s, server_s});
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
      } else if (event_s == server_s) {
        replace_server();
      } else {
        lose();
      }
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
  struct AwayServer {
    double at_s = 0;
    size_t server = 0;
  };

  // All workers and servers are there.
  void seat_all() {
    live_.resize(setting_.share.size());
    std::iota(live_.begin(), live_.end(), size_t{0});
    groups_.assign(1 + *std::max_element(setting_.group_of.begin(), setting_.group_of.end()), {});
    for (const size_t worker : live_) group_of(worker).share += setting_.share[worker];
    missing_ = 0;
    unseen_.clear();
    away_.clear();
    live_servers_.resize(setting_.servers);
    std::iota(live_servers_.begin(), live_servers_.end(), size_t{0});
    away_servers_.clear();
    first_snapshot_s_.assign(setting_.servers, work_.done_s);
  }

  // How many processes may be lost now.
  [[nodiscard]] size_t processes() const { return live_.size() + schedulers(setting_) + live_servers_.size(); }

  Group& group_of(size_t worker) { return groups_[setting_.group_of[worker]]; }

  // The part of the work that the job does in a second.
  [[nodiscard]] double rate() const {
    const bool has_empty_seat = away_.size() > unseen_.size();  // one of which the job knows
    const double rate = 1 - missing_;
    constexpr double kRounding = 1e-9;
    const bool waits_for_worker = policy_ == LossPolicy::kWait && setting_.stands_still && has_empty_seat;
    return waits_for_worker || !away_servers_.empty() || rate < kRounding ? 0 : rate;
  }

  void pass(double duration_s, double rate) {
    cost_.seconds += duration_s;
    (rate > 0 ? cost_.fewer_s : cost_.standing_s) += duration_s * (1 - rate);
  }

  void lose() {
    if (policy_ == LossPolicy::kRestart && setting_.scheduler != SchedulerLoss::kReturns && setting_.servers == 0)
      return restart();  // for each process
    const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(processes())));
    const size_t servers_from = live_.size() + schedulers(setting_);
    if (at >= servers_from) {
      lose_server(at - servers_from);
    } else if (at == live_.size()) {
      lose_scheduler();
    } else {
      lose_worker(at);
    }
  }

  void restart() {
    go_back_to_checkpoint(setting_, random_, work_, cost_);
    seat_all();
  }

  // Removes an element without keeping the order, and returns it.
  static size_t take(std::vector<size_t>& live, size_t at) {
    std::swap(live[at], live.back());
    const size_t taken = live.back();
    live.pop_back();
    return taken;
  }

  void lose_worker(size_t at) {
    if (policy_ == LossPolicy::kRestart) return restart();
    const size_t worker = take(live_, at);
    cost_.losses++;
    Group& group = group_of(worker);
    missing_ += group.unseen == 0 ? group.share : 0;
    group.share -= setting_.share[worker];
    group.unseen++;
    unseen_.push_back({cost_.seconds + setting_.detect_s, worker});
    if (policy_ == LossPolicy::kWait) away_.push_back({cost_.seconds + setting_.detect_s + setting_.replace_s, worker});
  }

  void lose_scheduler() {
    if (setting_.scheduler != SchedulerLoss::kReturns) return restart();
    cost_.losses++;
  }

  void lose_server(size_t at) {
    if (setting_.server == ServerLoss::kRestart) return restart();
    const size_t server = take(live_servers_, at);
    cost_.losses++;
    away_servers_.push_back({cost_.seconds + setting_.detect_s + setting_.replace_s, server});
    const double snapshot_s = snapshot_work_s(setting_, first_snapshot_s_[server], work_.done_s);
    if (setting_.server == ServerLoss::kGoBack) {
      cost_.repeated_s += work_.done_s - snapshot_s;
      work_.done_s = snapshot_s;
      first_snapshot_s_.assign(setting_.servers, snapshot_s);  // later ones are not valid anymore
    } else {
      cost_.undone_s += work_.done_s - snapshot_s;
      first_snapshot_s_[server] = work_.done_s;  // it has the values of its snapshot now
    }
  }

  void replace_server() {
    live_servers_.push_back(away_servers_.front().server);
    away_servers_.pop_front();
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
  const LossPolicy policy_;
  RandomStream& random_;
  LossCost cost_;
  Work work_;
  std::vector<size_t> live_;
  std::vector<Group> groups_;
  double missing_ = 0;            // the share of the lost workers, and of the groups that stand still
  std::deque<Seat> unseen_ = {};  // losses that nobody has noticed, with the times at which they will be
  std::deque<Seat> away_ = {};    // seats that wait for another worker, with the times at which it will train
  std::vector<size_t> live_servers_;
  std::deque<AwayServer> away_servers_ = {};  // lost servers, with the times at which others will have their places
  std::vector<double> first_snapshot_s_;      // by server: the work in the first of its snapshots that are valid
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

std::string_view name_of(ServerLoss loss) {
  switch (loss) {
    case ServerLoss::kRestart: return "restart";
    case ServerLoss::kGoBack: return "go back";
    case ServerLoss::kContinue: return "continue";
  }
  DT_CHECK(false, "unknown loss of a server");
}

LossCost job_with_losses(const LossSetting& setting, LossPolicy policy, uint64_t seed) {
  RandomStream random(seed, Use::kSimulation, static_cast<uint64_t>(policy), setting.share.size());
  return JobWithLosses(setting, policy, random).run();
}

}  // namespace dtrain::plan
