#include "role/scheduler/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/step_faults.h"
#include "job/process/exit_code.h"
#include "job/process/host_file.h"
#include "job/process/open_files.h"
#include "job/process/progress.h"
#include "job/process/scheduler_lines.h"
#include "job/resolve/scheme.h"
#include "kvstore/wire/placement.h"
#include "role/process/addresses.h"
#include "role/process/observer.h"
#include "role/process/process.h"
#include "role/process/report.h"
#include "role/process/signal_watcher.h"
#include "role/process/tracing.h"
#include "role/scheduler/job_view.h"
#include "role/scheduler/launcher_reports.h"
#include "role/setup/data.h"
#include "role/setup/labels.h"
#include "role/setup/network.h"
#include "role/setup/shares.h"
#include "rpc/scheduler.h"
#include "telemetry/trace_file.h"

namespace dtrain::role {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{1'000};
// Until the first progress is shown, because from then on a launcher knows that the job trains.
constexpr std::chrono::milliseconds kFirstProgressInterval{50};

void print_line(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// Shows the progress of the job, either as lines that a launcher parses or in words for a person. Findings are printed
// only for a launcher, because a person reads them in the log.
class Screen {
 public:
  Screen(bool has_launcher, Log log) : has_launcher_(has_launcher), log_(std::move(log)) {}

  void show(const job::Progress& progress) const {
    if (!has_launcher_) return log_.live(job::live_progress(progress));
    print_line(job::host_line(progress));
  }
  void ask_for(const rpc::Member& member) const {
    if (has_launcher_) print_line(fmt::format("{}{}", job::kReplaceLine, to_text(member)));
  }
  void show_replaced(const rpc::Member& member) const {
    if (has_launcher_) print_line(fmt::format("{}{}", job::kReplacedLine, to_text(member)));
  }
  template <class Finding>
  void show_finding(const Finding& finding) const {
    if (has_launcher_) print_line(std::string(job::kFindingLine) + observe::to_json(finding));
  }

 private:
  const bool has_launcher_;
  const Log log_;
};

// Returns a sentence that describes what is traced, or an Error that says why nothing is.
Result<std::string> start_trace(rpc::Scheduler& scheduler, uint64_t steps, Waits& waits) {
  constexpr std::chrono::seconds kPatience{3};
  const auto answer = std::make_shared<std::promise<Result<telemetry::TraceRequest>>>();
  scheduler.request_trace(steps, [answer](const Result<telemetry::TraceRequest>& trace) { answer->set_value(trace); });
  const Waits::Wait wait(waits, [] { return std::string("the scheduler to begin a trace"); });
  std::future<Result<telemetry::TraceRequest>> given = answer->get_future();
  if (given.wait_for(kPatience) != std::future_status::ready) {
    return fail(Code::kUnavailable, "the scheduler has not answered within {} s", kPatience.count());
  }
  DT_TRY(const telemetry::TraceRequest trace, given.get());
  return fmt::format("{} are traced", steps_text(trace));
}

sync::membership::OnWorkerLoss loss_policy(job::OnWorkerLoss policy) {
  using sync::membership::OnWorkerLoss;
  switch (policy) {
    case job::OnWorkerLoss::kFail: break;
    case job::OnWorkerLoss::kWait: return OnWorkerLoss::kWait;
    case job::OnWorkerLoss::kShrink: return OnWorkerLoss::kShrink;
  }
  return OnWorkerLoss::kFail;
}

// Whether workers wait for each other in every step, so that all wait for one that is to be replaced.
bool stands_still(const job::JobFlags& flags) {
  return job::all_go_back(flags) || job::store_of(flags).scheme == job::Scheme::kGsp;
}

sync::membership::OnServerLoss server_policy(const job::JobFlags& flags) {
  using sync::membership::OnServerLoss;
  if (flags.scheme.snapshot_every == 0) return OnServerLoss::kFail;
  return job::all_go_back(flags) ? OnServerLoss::kGoBack : OnServerLoss::kKeep;
}

}  // namespace

sync::membership::Settings membership_settings(const job::Flags& flags, const job::JobSpec& spec) {
  sync::membership::Settings settings;
  settings.workers = static_cast<uint32_t>(flags.job.num_workers);
  settings.servers = static_cast<uint32_t>(flags.job.num_servers);
  settings.on_worker_loss = loss_policy(spec.flags.scheme.on_worker_loss);
  settings.on_server_loss = server_policy(spec.flags);
  settings.max_workers = static_cast<uint32_t>(spec.flags.scheme.max_workers);
  settings.stands_still = stands_still(spec.flags);
  settings.rejoin_timeout_ms = static_cast<uint64_t>(flags.wire.rejoin_timeout.count());
  settings.min_workers = static_cast<uint32_t>(flags.wire.min_workers);
  settings.meets_on_change =
      spec.flags.scheme.reshare == job::Reshare::kNow || spec.flags.scheme.elastic_batch != job::ElasticBatch::kOff;
  settings.job_text = job::text(spec);
  settings.barrier_bytes_max = job::kGatherBytesMax;
  settings.start_timeout_ms = static_cast<uint64_t>(flags.wire.start_timeout.count());
  settings.heartbeat_timeout_ms = static_cast<uint64_t>(flags.wire.heartbeat_timeout.count());
  return settings;
}

Result<std::string> placement_of(const job::JobFlags& flags) {
  if (flags.num_servers == 0) return std::string();
  DT_TRY(const Network network, build_network(flags));
  DT_TRY_VOID(batch_labels(flags.augment, network.shapes));
  const auto rule = flags.scheme.placement == job::Placement::kHash ? kvstore::PlacementRule::kHash
                                                                    : kvstore::PlacementRule::kBalanced;
  return kvstore::to_text(kvstore::place(key_sizes(network.shapes), static_cast<uint32_t>(flags.num_servers), rule,
                                         static_cast<uint64_t>(flags.scheme.bigarray_bound)));
}

namespace {

// Files that the scheduler reads on behalf of all processes, so that no other host needs a copy.
struct JobFiles {
  std::vector<data::Fraction> sharding;
  std::optional<job::GroupsFile> groups;
  std::optional<job::HostAssignment> hosts;
};

Result<JobFiles> read_files(const job::Flags& flags) {
  JobFiles files;
  DT_TRY(files.sharding, read_sharding(flags));
  DT_TRY(files.groups, read_groups(flags));
  DT_TRY(files.hosts, job::read_host_assignment(flags));
  return files;
}

// The places of the workers, indexed by rank. Hosts are named as in the host file, or, without one, by their own host
// names.
std::vector<job::WorkerPlace> places_of(const rpc::Joined& joined, const std::optional<job::HostAssignment>& hosts) {
  std::vector<job::WorkerPlace> places;
  for (const rpc::Node& node : joined.nodes) {
    if (node.member.role != rpc::Role::kWorker) continue;
    places.push_back({hosts ? hosts->workers[node.member.rank].host : node.host, node.address});
  }
  return places;
}

// Fills in what is known once all processes have joined. Returns the plan that follows from the complete JobSpec.
Result<job::JobPlan> complete(const rpc::Joined& joined, const JobFiles& files, job::JobSpec& spec) {
  if (files.groups) {
    DT_TRY(spec.groups, job::parse_groups(*files.groups, places_of(joined, files.hosts), spec.flags.scheme.ungrouped));
    DT_TRY_VOID(job::check_groups(spec.flags, spec.groups));
  }
  DT_TRY(job::JobPlan plan, complete_spec(static_cast<int64_t>(joined.records_train),
                                          static_cast<int64_t>(joined.records_val), files.sharding, spec));
  DT_TRY(spec.placement, placement_of(spec.flags));
  return plan;
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

// Opens the file of --state-dir. Null without the flag.
Result<std::shared_ptr<rpc::StateFile>> open_state(const job::LaunchFlags& flags, const std::string& run_dir) {
  std::shared_ptr<rpc::StateFile> state;
  if (flags.state_dir.empty()) return state;
  DT_TRY(state, rpc::StateFile::open(
                    {.directory = flags.state_dir, .job = absolute(run_dir), .comes_back = flags.returns > 0}));
  return state;
}

// What a worker must know that joins the job while it runs. The file also has the flags of the processes.
rpc::JobDescription describe(const std::string& run_dir, const job::JobSpec& spec) {
  return {.job = read_file(run_dir + "/" + job::kJobSpecFile).value_or(job::text(spec)), .run_dir = absolute(run_dir)};
}

void warn(const Log& log, const std::string& text) {
  if (!text.empty()) log.warn("{}", text);
}

void give_up(rpc::Scheduler& scheduler, const std::vector<rpc::MemberPulse>& members, const observe::Stalled& stalled) {
  const auto member = std::ranges::find(members, stalled.who, [](const auto& m) { return to_text(m.member); });
  if (member != members.end()) scheduler.give_up(member->member, stalled.sentence);
}

void pass_on(rpc::Scheduler& scheduler, const job::EndedProcess& ended) {
  const bool is_server = ended.process.role == job::Role::kServer;
  scheduler.process_ended(
      {is_server ? rpc::Role::kServer : rpc::Role::kWorker, static_cast<uint32_t>(ended.process.rank)}, ended.how);
}

// The progress of the job. Before the first report of a worker, another thread may still be making the plan.
job::Progress progress_of(const job::JobFlags& flags, const job::JobPlan& plan,
                          const std::vector<job::WorkerProgress>& workers, job::TimeLeft& left) {
  return workers.empty() ? job::Progress{.eta_s = -1} : job_progress(flags, plan, workers, left);
}

// Waits for the end of the job. Shows its progress every kProgressInterval and at the end.
Result<> watch(rpc::Scheduler& scheduler, const job::JobFlags& flags, const job::JobPlan& plan, const Screen& screen,
               JobView& view, double stall_timeout_s, FailPoints& fail_points) {
  const auto is_replaced = [&](const rpc::Member& member) {
    if (member.role == rpc::Role::kServer) return flags.scheme.snapshot_every > 0;
    return flags.scheme.on_worker_loss == job::OnWorkerLoss::kWait;
  };
  job::TimeLeft left;
  bool is_shown = false;
  while (true) {
    const std::optional<Result<>> end = scheduler.wait(is_shown ? kProgressInterval : kFirstProgressInterval);
    std::vector<rpc::MemberPulse> members = scheduler.pulses();
    const std::vector<job::WorkerProgress> workers = worker_progress(members);
    const job::Progress progress = progress_of(flags, plan, workers, left);
    if (!workers.empty()) screen.show(end ? job::at_end(progress) : progress);
    is_shown = !workers.empty();
    const std::vector<rpc::MemberChange> changes = scheduler.take_changes();
    for (const rpc::MemberChange& change : changes) {
      using Kind = rpc::MemberChange::Kind;
      const bool is_missing = change.kind == Kind::kLost || change.kind == Kind::kAwaited;
      if (is_missing && is_replaced(change.member)) screen.ask_for(change.member);
      if (change.kind == Kind::kJoined && is_replaced(change.member)) screen.show_replaced(change.member);
    }
    for (const observe::MemberChange& change : view.note(changes)) screen.show_finding(change);
    if (end) {
      screen.show_finding(view.end());
      return *end;
    }
    if (workers.empty()) continue;
    for (const observe::Stalled& stalled : view.find_stalled(members)) {
      if (stall_timeout_s > 0 && stalled.seconds >= stall_timeout_s) give_up(scheduler, members, stalled);
    }
    for (const observe::Slow& slow : view.update(progress, std::move(members))) screen.show_finding(slow);
    fail_points.reach_step(static_cast<uint64_t>(progress.step));
  }
}

// What the processes have reported, for the observer.
observe::JobState state_of(const rpc::Scheduler& scheduler, const job::JobFlags& flags, const job::JobPlan& plan,
                           job::TimeLeft& left, Clock::time_point started) {
  std::vector<rpc::MemberPulse> members = scheduler.pulses();
  const std::vector<job::WorkerProgress> workers = worker_progress(members);
  std::vector<observe::ProcessState> processes;
  for (rpc::MemberPulse& member : members) {
    const std::chrono::duration<double> silent = Clock::now() - member.heard;
    observe::ProcessState process{.source = {},
                                  .wait = std::move(member.pulse.wait),
                                  .wait_s = member.pulse.wait_s,
                                  .heard_s = silent.count(),
                                  .is_lost = member.is_lost};
    if (member.member.role == rpc::Role::kWorker) process.steps = member.pulse.progress.step;
    process.source = source_of(std::move(member));
    processes.push_back(std::move(process));
  }
  return job_state(progress_of(flags, plan, workers, left), started, std::move(processes));
}

}  // namespace

Result<int> run_scheduler(const job::Flags& flags, const Signals& signals) {
  DT_TRY(Process process, Process::open(flags, signals, "scheduler"));
  DT_TRY_VOID(process.take_rank(0));
  const job::JobFlags& job = process.flags.job;
  DT_TRY_VOID(job::check_open_files(job::descriptors_for(job::worker_seats(job) + job.num_servers), "the scheduler"));
  DT_TRY_VOID(complete_flags(process.flags));
  process.flags.job.seed = choose_seed(process);
  process.log.info("start with arguments {}", job::describe(process.flags));
  warn(process.log, job::learning_rate_hint(process.flags.job));
  DT_TRY(const JobFiles files, read_files(process.flags));
  DT_TRY(const rpc::Security security, security_of(process.flags.launch));
  DT_TRY(const net::Listen listen, scheduler_listen(process.flags.launch, security.token));
  DT_TRY(std::shared_ptr<rpc::StateFile> state, open_state(flags.launch, process.run_dir.path()));

  job::JobSpec spec = job::requested(process.flags);
  job::JobPlan plan;  // the plan of the job; valid once all processes have joined
  rpc::SchedulerOptions options{.listen = listen,
                                .host = scheduler_host(process.flags.launch, listen),
                                .security = security,
                                .membership = membership_settings(process.flags, spec),
                                .tracer = process.tracer.get(),
                                .finish_job = nullptr,
                                .state = std::move(state)};
  options.finish_job = [&](const rpc::Joined& joined) -> Result<rpc::CompleteJob> {
    DT_TRY(plan, complete(joined, files, spec));
    for (const std::string& hint : data_hints(spec, plan)) process.log.warn("{}", hint);
    DT_TRY_VOID(write_complete_spec(process.flags, spec, process.run_dir.path()));
    process.log.verbose(1, "table {}", spec.placement);
    return rpc::CompleteJob{.text = job::text(spec),
                            .stop_set_of = plan.stop_set_of,
                            .group_of = plan.policy.group_of,
                            .description = describe(process.run_dir.path(), spec)};
  };
  options.continue_job = [&](const std::string& job_text) -> Result<> {
    DT_TRY(spec, job::parse_job_spec(job_text));
    plan = job::plan_of(spec);
    return {};
  };
  if (steps_to_trace(flags) > 0 && flags.launch.returns == 0) telemetry::remove_traces(process.run_dir.path());
  DT_TRY(const std::unique_ptr<rpc::Scheduler> scheduler, rpc::Scheduler::start(std::move(options), process.log));
  const std::string host = scheduler_host(process.flags.launch, listen);
  print_line(std::string(job::kAddressLine) + net::to_text({host, scheduler->port()}));
  Waits waits;
  const SignalWatcher watcher(
      signals, waits, process.log, [&] { scheduler->request_stop(); },
      [&] { scheduler->request_trace(steps_to_trace(flags), nullptr); });
  std::optional<LauncherReports> launcher;
  if (flags.launch.has_launcher) {
    launcher.emplace(
        STDIN_FILENO, [&](const job::EndedProcess& ended) { pass_on(*scheduler, ended); }, process.log);
  }
  const auto started = std::chrono::steady_clock::now();
  job::TimeLeft left;  // estimates the remaining time; used only by the observer's thread
  DT_TRY(const std::unique_ptr<Observer> observer,
         Observer::of_job(
             process,
             [&] {
               observe::JobState state = state_of(*scheduler, spec.flags, plan, left, started);
               state.processes.push_back(own_state(*process.registry, waits, "scheduler", 0));
               return state;
             },
             [&] { return start_trace(*scheduler, steps_to_trace(flags), waits); }));
  const double stall_timeout_s = std::chrono::duration<double>(process.flags.wire.stall_timeout).count();
  JobView view(*process.registry, job_form(process, spec.flags), stall_timeout_s, process.log);
  const Screen screen(flags.launch.has_launcher, process.log);
  Result<> ended = watch(*scheduler, spec.flags, plan, screen, view, stall_timeout_s, *process.fail_points);
  process.tracer->finish();
  if (observer != nullptr) observer->end(ended);
  DT_TRY_VOID(std::move(ended));
  return job::kExitOk;
}

}  // namespace dtrain::role
