#include "plan/simulate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>

#include "base/file.h"
#include "base/progress_bar.h"
#include "base/random.h"
#include "base/words.h"
#include "job/flags/value.h"
#include "job/resolve/resolve.h"
#include "job/spec/groups.h"
#include "plan/learning_model.h"

namespace dtrain::plan {
namespace {

constexpr int64_t kWorkersMax = 65536;
// Virtual time overflows after 584 years. These limits keep it far below that.
constexpr double kMsMax = 1e7;       // limit of a worker's step time and of the latency
constexpr double kRoundMsMax = 1e8;  // limit of the time in which the bytes of all workers pass a server
// Limit of the number of connections between workers and servers, which need about a gigabyte of memory.
constexpr int64_t kLinesMax = int64_t{1} << 24;

// The numbers A and B of "AxB" or "A:B"; for "A" alone, B is 1.
template <class First>
using Counted = std::pair<First, int64_t>;
template <class First>
Result<Counted<First>> parse_pair(std::string_view word, char between, bool may_be_alone) {
  Counted<First> pair{0, 1};
  const size_t at = word.find(between);
  if (at == word.npos && !may_be_alone)
    return fail(Code::kUsage, "'{}' must be two numbers with '{}' between them", word, between);
  DT_TRY_VOID(job::parse_value(word.substr(0, at), pair.first), "reading '{}'", word);
  if (at != word.npos) DT_TRY_VOID(job::parse_value(word.substr(at + 1), pair.second), "reading '{}'", word);
  if (pair.first < 0 || pair.second < 1 || pair.second > kWorkersMax)
    return fail(Code::kUsage, "'{}' is out of range: the first number must be at least 0, the second from 1 to {}",
                word, kWorkersMax);
  return pair;
}

Result<std::vector<double>> parse_speeds(const std::string& speeds) {
  const bool is_inline = speeds.find_first_not_of("0123456789.,x") == speeds.npos;
  std::string text = speeds;
  if (!is_inline) {
    DT_TRY(text, read_file(speeds));
  }
  std::replace(text.begin(), text.end(), ',', ' ');
  std::vector<double> step_ms;
  for (const WordLine& line : word_lines(text)) {
    for (const std::string_view word : line.words) {
      DT_TRY(const Counted<double> speed, parse_pair<double>(word, 'x', true), "--speeds, line {}", line.number);
      if (speed.first > kMsMax) return fail(Code::kUsage, "--speeds: {} ms is too long for a step", speed.first);
      step_ms.insert(step_ms.end(), static_cast<size_t>(speed.second), speed.first);
      if (step_ms.size() > kWorkersMax) return fail(Code::kUsage, "--speeds lists more than {} workers", kWorkersMax);
    }
  }
  return step_ms;
}

Result<std::vector<Setting::Join>> parse_joins(const std::string& text) {
  std::vector<Setting::Join> joins;
  for (const std::string_view word : job::split_list(text)) {
    DT_TRY(const Counted<int64_t> join, parse_pair<int64_t>(word, ':', false), "--join");
    joins.push_back({static_cast<sync::Step>(join.first), static_cast<uint32_t>(join.second)});
  }
  std::stable_sort(joins.begin(), joins.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return joins;
}

// The step times of all workers. If some of the workers that join later are not listed, they are as fast as the last
// listed worker.
Result<std::vector<double>> speeds_of(const SimulateOptions& options, int64_t joiners) {
  std::vector<double> step_ms;
  if (!options.speeds.empty()) {
    DT_TRY(step_ms, parse_speeds(options.speeds));
  }
  if (step_ms.empty()) step_ms.assign(static_cast<size_t>(options.workers > 0 ? options.workers : 4), 100);
  const auto listed = static_cast<int64_t>(step_ms.size());
  const int64_t workers = options.workers > 0 ? options.workers : listed;
  if (listed != workers && listed != workers + joiners) {
    return fail(Code::kUsage, "--speeds lists {} workers, but --workers is {}", listed, workers);
  }
  step_ms.resize(static_cast<size_t>(workers + joiners), step_ms.back());
  if (workers + joiners > kWorkersMax)
    return fail(Code::kUsage, "a simulation can have at most {} workers", kWorkersMax);
  if ((workers + joiners) * options.servers > kLinesMax) {
    return fail(Code::kUsage, "{} workers with {} servers are more than a simulation can have", workers + joiners,
                options.servers);
  }
  return step_ms;
}

// Each host in the groups file stands for one worker, in order of the ranks. The remaining workers have no host and are
// identified by their rank.
std::vector<job::WorkerPlace> places_of(std::string_view text, size_t workers) {
  std::vector<job::WorkerPlace> places(workers);
  size_t next = 0;
  for (const WordLine& line : word_lines(text)) {
    for (const std::string_view word : line.words) {
      if (word.find_first_of("#:") == word.npos && next < workers) places[next++].host = word;
    }
  }
  return places;
}

Result<std::vector<sync::Group>> groups_of(const SimulateOptions& options, const std::vector<double>& step_ms) {
  if (!options.groups.empty()) return options.groups;
  std::vector<sync::Group> groups;
  if (options.groups_file.empty()) {
    std::map<double, sync::Group> by_speed;
    for (const double ms : step_ms) {
      groups.push_back(by_speed.try_emplace(ms, static_cast<sync::Group>(by_speed.size())).first->second);
    }
    return groups;
  }
  DT_TRY(const std::string text, read_file(options.groups_file));
  DT_TRY(const std::vector<int64_t> parsed,
         job::parse_groups({options.groups_file, text}, places_of(text, step_ms.size()), job::Ungrouped::kError));
  for (const int64_t group : parsed) groups.push_back(static_cast<sync::Group>(group));
  return groups;
}

Result<> apply_inject(const job::Inject& inject, Setting& setting) {
  for (const auto& rule : inject.kill) {
    if (rule.where->role != job::Role::kWorker)
      return fail(Code::kUsage, "--inject: a simulation can kill only workers");
  }
  if (inject.counts_messages() || !inject.stop.empty())
    return fail(Code::kUsage, "--inject: a simulation can kill workers only at a step, and stop none");
  if (!inject.index_ms.empty())
    return fail(Code::kUsage, "--inject: index-ms has no effect in a simulation, which reads no record files");
  const auto workers = static_cast<int64_t>(setting.step_ms.size());
  DT_TRY_VOID(job::check_processes(inject, {.workers = workers, .servers = setting.servers, .schedulers = 0}));
  const auto hosts = workers + setting.servers;
  for (int64_t host = 0; host < hosts; host++) {
    const bool is_worker = host < workers;
    const job::Faults faults = inject.of(is_worker ? job::ProcessName{job::Role::kWorker, host}
                                                   : job::ProcessName{job::Role::kServer, host - workers});
    setting.network_faults.by_host.push_back({faults.drop, faults.dup, faults.delay.min_ms, faults.delay.max_ms});
    if (!is_worker) continue;
    double& ms = setting.step_ms[static_cast<size_t>(host)];
    ms = std::max(ms, faults.step_ms);
    for (const FailPoint& point : faults.points)
      setting.kills.push_back({static_cast<sync::Worker>(host), point.number});
  }
  setting.network_faults.seed = inject.seed.value_or(0);
  return {};
}

// The time in which the gradients and weights of all workers pass through one server.
double round_ms(const Setting& setting) {
  if (setting.network.gbit_per_s <= 0) return 0;
  const double bits = 2 * 8 * static_cast<double>(setting.network.bytes) / setting.servers;
  return bits * static_cast<double>(setting.step_ms.size()) / setting.network.gbit_per_s / 1e6;
}

Result<Setting> setting_of(const SimulateOptions& options) {
  Setting setting = {.servers = static_cast<uint32_t>(options.servers),
                     .steps = static_cast<sync::Step>(options.steps),
                     .epochs = static_cast<sync::Step>(options.num_epochs),
                     .jitter = options.jitter,
                     .network = {options.latency_ms, options.bandwidth, static_cast<uint64_t>(options.bytes)},
                     .crash_share = options.leave_percent / 100};
  if (options.jitter > 1) return fail(Code::kUsage, "--jitter {}: must be at most 1", options.jitter);
  if (options.leave_percent > 100)
    return fail(Code::kUsage, "--leave-percent {}: must be at most 100", options.leave_percent);
  DT_TRY(setting.joins, parse_joins(options.join));
  int64_t joiners = 0;
  for (const Setting::Join& join : setting.joins) joiners += join.count;
  DT_TRY(setting.step_ms, speeds_of(options, joiners));
  DT_TRY_VOID(apply_inject(options.inject, setting));
  if (round_ms(setting) > kRoundMsMax || options.latency_ms > kMsMax) {
    return fail(
        Code::kUsage,
        "--bytes, --bandwidth and --latency: the messages of all workers would take {:g} ms to pass through a server "
        "(at most {:g} ms are possible), and the latency is {:g} ms (at most {:g} ms)",
        round_ms(setting), kRoundMsMax, options.latency_ms, kMsMax);
  }
  // The first repetition waits for at least twice the time in which the messages of all workers pass through a server.
  setting.network_faults.resend_ms = std::max(100.0, 2 * round_ms(setting));
  setting.network_faults.resend_max_ms = std::max(5000.0, setting.network_faults.resend_ms);
  return setting;
}

struct Scheme {
  std::string name;
  sync::Policy policy;
  double learning_rate;
  bool members_wait;  // whether the workers of a group wait for each other in every step
  bool goes_back;     // whether all go back to a snapshot when a server is lost
};

Result<std::vector<Scheme>> schemes_of(const SimulateOptions& options, const Setting& setting) {
  const auto workers = static_cast<uint32_t>(setting.step_ms.size());
  const double own_lr = options.lr / workers;
  if (options.backup >= workers)
    return fail(Code::kUsage, "--backup {}: must be less than the number of workers, {}", options.backup, workers);
  const auto is_asked = [&](std::string_view name) { return options.scheme == "all" || options.scheme == name; };
  std::vector<Scheme> schemes;
  if (is_asked("bsp")) schemes.push_back({"bsp", sync::bsp(workers), options.lr, true, true});
  if (is_asked("bsp") && options.backup > 0) {
    schemes.push_back({fmt::format("bsp backup {}", options.backup),
                       sync::bsp(workers, static_cast<uint32_t>(options.backup)), options.lr, false, false});
  }
  if (is_asked("asp")) schemes.push_back({"asp", sync::asp(workers), own_lr, false, false});
  if (is_asked("ssp")) {
    const auto lead = static_cast<sync::Step>(options.staleness);
    schemes.push_back({fmt::format("ssp lead {}", lead), sync::ssp(workers, lead), own_lr, false, false});
  }
  if (is_asked("gsp")) {
    DT_TRY(std::vector<sync::Group> groups, groups_of(options, setting.step_ms));
    const sync::Policy gsp = sync::gsp(std::move(groups));
    const sync::Group count = sync::group_count(gsp);
    schemes.push_back({fmt::format("gsp {} group{}", count, count == 1 ? "" : "s"), gsp, options.lr, true, false});
  }
  return schemes;
}

// With --mtbf: how many losses the loss model draws for each policy, over all jobs. The means are exact to a hundredth
// long before.
constexpr double kLossesDrawn = 5e6;
constexpr double kJobsMax = 200;
// The steps that the simulation times for the loss model: enough to average out their jitter, in some seconds.
constexpr int64_t kStepsTimed = 100, kStepsTimedMin = 20;
constexpr int64_t kExchangesTimed = 5'000'000;  // between a worker and a server
// How a server writes a snapshot, in bytes a second: as a hard disk or a shared file system does. A snapshot has the
// weights and as many bytes of the optimizer's state.
constexpr double kWriteRate = 2e8, kSnapshotCopies = 2;

int64_t steps_timed(const SimulateOptions& options, const Setting& setting) {
  const int64_t exchanges = static_cast<int64_t>(setting.step_ms.size()) * options.servers;
  return std::min(options.steps, std::clamp(kExchangesTimed / exchanges, kStepsTimedMin, kStepsTimed));
}

Result<> check_losses(const SimulateOptions& options, const Setting& setting) {
  if (options.mtbf_hours == 0 && options.policy != "all")
    return fail(Code::kUsage, "--policy {}: without --mtbf HOURS, no worker is lost", options.policy);
  if (options.mtbf_hours == 0 && options.scheduler_returns)
    return fail(Code::kUsage, "--scheduler-returns: without --mtbf HOURS, the scheduler is not lost");
  if (options.mtbf_hours == 0 && options.snapshot_every > 0)
    return fail(Code::kUsage, "--snapshot-every {}: without --mtbf HOURS, no server is lost", options.snapshot_every);
  if (options.mtbf_hours == 0) return {};
  const bool changes = options.leave_percent > 0 || !setting.joins.empty() || !setting.kills.empty();
  if (changes || options.loss > 0)
    return fail(Code::kUsage, "--mtbf: cannot be combined with --leave-percent, --join, --loss or --inject kill");
  return {};
}

std::vector<LossPolicy> policies_of(const SimulateOptions& options) {
  std::vector<LossPolicy> policies;
  for (const LossPolicy policy : {LossPolicy::kWait, LossPolicy::kShrink, LossPolicy::kRestart}) {
    if (options.policy == "all" || options.policy == name_of(policy)) policies.push_back(policy);
  }
  return policies;
}

// Who makes no step from the loss of a worker until it is noticed. Without a bound, nobody waits for the others; with
// one, all do, unless they may be further ahead than the notice takes.
std::vector<uint32_t> groups_that_wait(const Scheme& scheme, double step_s, double detect_s) {
  const auto workers = static_cast<uint32_t>(scheme.policy.group_of.size());
  if (scheme.members_wait) return {scheme.policy.group_of.begin(), scheme.policy.group_of.end()};
  if (scheme.policy.lead_max && static_cast<double>(*scheme.policy.lead_max) * step_s < detect_s)
    return std::vector<uint32_t>(workers, 0);
  std::vector<uint32_t> own(workers);
  std::iota(own.begin(), own.end(), 0);
  return own;
}

double write_time_s(const SimulateOptions& options) {
  return kSnapshotCopies * static_cast<double>(options.bytes) / static_cast<double>(options.servers) / kWriteRate;
}

void add_servers(const SimulateOptions& options, const Scheme& scheme, const Outcome& outcome, LossSetting& losses) {
  losses.servers = static_cast<size_t>(options.servers);
  if (options.snapshot_every == 0) return;
  losses.server = scheme.goes_back ? ServerLoss::kGoBack : ServerLoss::kContinue;
  losses.snapshot_s = static_cast<double>(options.snapshot_every) / outcome.updates_per_s();
  // The servers answer no later update before a snapshot is written.
  losses.snapshot_write_s = std::min(write_time_s(options), losses.snapshot_s);
}

LossSetting losses_of(const SimulateOptions& options, const Scheme& scheme, double step_s, const Outcome& outcome) {
  const auto seconds = [](std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); };
  const double epoch_s = step_s * static_cast<double>(options.steps);
  LossSetting losses{.work_s = epoch_s * static_cast<double>(options.num_epochs),
                     .epoch_s = epoch_s,
                     .save_s = seconds(options.save_every),
                     .stands_still = scheme.members_wait,
                     .scheduler = options.scheduler_returns ? SchedulerLoss::kReturns : SchedulerLoss::kRestart,
                     .mtbf_s = options.mtbf_hours * 3600,
                     .detect_s = seconds(options.heartbeat_timeout),
                     .replace_s = seconds(options.replace_time)};
  losses.group_of = groups_that_wait(scheme, step_s, losses.detect_s);
  // Workers that make more steps in the same time do a larger part of the work.
  double steps = 0;
  for (const Outcome::WorkerTimes& times : outcome.workers) steps += static_cast<double>(times.steps);
  for (const Outcome::WorkerTimes& times : outcome.workers)
    losses.share.push_back(static_cast<double>(times.steps) / steps);
  add_servers(options, scheme, outcome, losses);
  return losses;
}

PolicyResult cost_of(const LossSetting& losses, LossPolicy policy, int64_t jobs, uint64_t seed, double updates_per_s) {
  PolicyResult result{.policy = policy, .jobs = jobs};
  std::vector<LossCost> costs;
  for (int64_t job = 0; job < jobs; job++)
    costs.push_back(job_with_losses(losses, policy, mix64(seed) + static_cast<uint64_t>(job)));
  result.finished = std::count_if(costs.begin(), costs.end(), [](const LossCost& cost) { return cost.finished; });
  std::erase_if(costs, [&](const LossCost& cost) { return result.finished > 0 && !cost.finished; });
  const auto mean = [&](auto member) {
    double sum = 0;
    for (const LossCost& cost : costs) sum += static_cast<double>(cost.*member);
    return sum / static_cast<double>(costs.size());
  };
  result.mean_s = mean(&LossCost::seconds);
  result.standing_s = mean(&LossCost::standing_s);
  result.fewer_s = mean(&LossCost::fewer_s);
  result.repeated_s = mean(&LossCost::repeated_s);
  result.losses = mean(&LossCost::losses);
  result.workers_at_end = mean(&LossCost::workers_at_end);
  result.updates_undone = mean(&LossCost::undone_s) * updates_per_s;
  return result;
}

// Runs the loss model for the whole job, of which result.outcome has `steps` steps.
Result<> add_losses(const SimulateOptions& options, const Scheme& scheme, sync::Step steps, SchemeResult& result) {
  const double step_s = result.outcome.seconds / static_cast<double>(steps);
  const LossSetting losses = losses_of(options, scheme, step_s, result.outcome);
  result.job_s = losses.work_s;
  result.server_loss = losses.server;
  const double expected = result.job_s / losses.mtbf_s * static_cast<double>(losses.share.size() + losses.servers);
  if (expected * kTooLong > kLossesDrawn) {
    return fail(
        Code::kUsage,
        "--mtbf {:g}: a job of {:.3g} hours with {} workers and {} servers would lose about {:.2g} of them, which is "
        "more than a simulation can have ({:g}); simulate a part of the job with a smaller --num-epochs",
        options.mtbf_hours, result.job_s / 3600, losses.share.size(), losses.servers, expected,
        kLossesDrawn / kTooLong);
  }
  const auto jobs = static_cast<int64_t>(std::clamp(kLossesDrawn / std::max(expected, 1.0), 1.0, kJobsMax));
  for (const LossPolicy policy : policies_of(options))
    result.policies.push_back(cost_of(losses, policy, jobs, options.seed, result.outcome.updates_per_s()));
  return {};
}

// A progress bar of the steps begun by all workers together.
class StepBar final : public Observer {
 public:
  StepBar(const std::string& scheme, const Setting& setting, ShowLive show)
      : bar_({"simulating " + scheme, "steps",
              static_cast<int64_t>(setting.steps * setting.epochs * setting.step_ms.size())},
             std::move(show)) {}
  void on_begin(double /*ms*/, sync::Worker /*worker*/, sync::Step /*step*/) override { bar_.show(begun_++); }

 private:
  ProgressBar bar_;
  int64_t begun_ = 0;
};

}  // namespace

Result<SimulateResult> simulate(const SimulateOptions& options, const SimulateProgress& progress) {
  using Clock = std::chrono::steady_clock;
  DT_TRY(Setting setting, setting_of(options));
  DT_TRY(const std::vector<Scheme> schemes, schemes_of(options, setting));
  DT_TRY_VOID(check_losses(options, setting));
  if (options.mtbf_hours > 0) {
    setting.steps = static_cast<sync::Step>(steps_timed(options, setting));
    setting.epochs = 1;
  }
  LearningData data;
  if (options.loss > 0) {
    DT_TRY(data, learning_data(options.data_dir));
  }
  SimulateResult result{
      .options = options, .step_ms = setting.step_ms, .schemes = {}, .snapshot_write_s = write_time_s(options)};
  for (const Scheme& scheme : schemes) {
    const Clock::time_point begin = Clock::now();
    setting.policy = scheme.policy;
    SchemeResult& entry = result.schemes.emplace_back();
    entry.name = scheme.name;
    std::unique_ptr<LearningModel> model;
    StepBar bar(scheme.name, setting, progress.live);
    std::vector<Observer*> observers = {&bar};
    if (options.loss > 0) {
      const LearningSetting learning = {options.batch_size, scheme.learning_rate, options.loss, options.seed};
      model = std::make_unique<LearningModel>(data, learning, setting);
      observers.push_back(model.get());
    }
    entry.outcome = simulate(setting, options.seed, observers);
    if (model) entry.reached_s = model->reached_s();
    if (model) entry.last_loss = model->curve().back().loss;
    if (options.mtbf_hours > 0) DT_TRY_VOID(add_losses(options, scheme, setting.steps, entry));
    progress.line(fmt::format("{}: {} gradients in {:.2f} s", scheme.name, entry.outcome.gradients,
                              std::chrono::duration<double>(Clock::now() - begin).count()));
  }
  return result;
}

Result<sync::Replay> replay_file(const std::string& path, const std::function<void(std::string_view)>& out) {
  DT_TRY(const std::string event_log, read_file(path, kDataBytesMax));
  DT_TRY(sync::Replay replay, sync::replay(event_log, out), "replaying {}", path);
  return replay;
}

}  // namespace dtrain::plan
