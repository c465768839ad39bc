#include "role/server/server.h"

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "base/step_faults.h"
#include "base/thread.h"
#include "job/process/exit_code.h"
#include "job/process/open_files.h"
#include "kvstore/server/shard.h"
#include "role/process/addresses.h"
#include "role/process/membership.h"
#include "role/process/observer.h"
#include "role/process/process.h"
#include "role/process/signal_watcher.h"
#include "role/process/tracing.h"
#include "role/process/wait_log.h"
#include "role/server/server_metrics.h"
#include "role/setup/network.h"
#include "role/setup/threads.h"
#include "role/setup/update.h"
#include "rpc/control_client.h"
#include "rpc/data_server.h"
#include "sync/seat.h"
#include "telemetry/metrics_file.h"

namespace dtrain::role {
namespace {

constexpr uint64_t kCorruptPerLine = 100;  // a log line covers this many messages of one slice with a wrong checksum

// A log line about one GSP group.
std::string line(const kvstore::GroupReport& report) {
  return fmt::format(
      "group {}: {} updates, {:.2f} per second; staleness {:.2f} on average, at most {}; the first worker of a round "
      "waits {:.1f} ms for the last",
      report.group, report.updates, report.updates_per_s, report.staleness_mean, report.staleness_max,
      report.first_wait_s * 1000);
}

// "1: 90 %, 2: 8 %, 3: 2 %": the shares of updates by their staleness.
std::string histogram(const std::vector<uint64_t>& staleness) {
  const auto all = static_cast<double>(std::accumulate(staleness.begin(), staleness.end(), uint64_t{0}));
  std::string text;
  for (size_t i = 0; i < staleness.size(); i++) {
    if (staleness[i] == 0) continue;
    text +=
        fmt::format("{}{}: {:.1f} %", text.empty() ? "" : ", ", i + 1, 100 * static_cast<double>(staleness[i]) / all);
  }
  return text;
}

// Appends the staleness of the updates to the metrics file (docs/formats.md, "Run directory").
Result<> write_metrics(const Process& process, uint32_t rank) {
  const telemetry::Record record = end_record(process.registry->snapshot());
  if (record.values.empty()) return {};
  DT_TRY(const std::unique_ptr<telemetry::MetricsFile> file,
         telemetry::MetricsFile::open(process.run_dir.path() + "/" + kMetricsFile, "server", rank));
  return file->write(record);
}

telemetry::Registry::Handle collect(telemetry::Registry& registry, const kvstore::Shard& shard) {
  return registry.collect([&shard](telemetry::Registry& to) { set_metrics(shard.counts(), to); });
}

// Logs what the server did, even if the job was stopped or has failed.
Result<> report(const Process& process, uint32_t rank, const kvstore::ShardCounts& counts) {
  set_metrics(counts, *process.registry);
  process.log.info(
      "server {} made {} updates from {} gradients and was busy for {:.1f} s; it dropped {} repeated gradients and {} "
      "late gradients, and refused {} messages",
      rank, counts.updates, counts.pushes, counts.busy_s, counts.duplicates, counts.late, counts.refused);
  if (counts.left_out > 0) {
    process.log.info("{} updates were skipped, because a worker's gradient was not finite", counts.left_out);
  }
  if (counts.not_finite > 0) {
    process.log.warn("{} updates were refused, because a sum of gradients was not finite", counts.not_finite);
  }
  if (counts.corrupt > 0) process.log.warn("{} messages had a wrong checksum", counts.corrupt);
  if (counts.staleness.size() > 1) process.log.info("staleness of the updates: {}", histogram(counts.staleness));
  return write_metrics(process, rank);
}

// Opens the file of --trace-events; if there are several servers, each has its own, which is continued by one that
// takes its place. Null without the flag.
Result<std::unique_ptr<sync::EventLog>> open_event_log(const job::Flags& flags, const job::JobSpec& spec,
                                                       const rpc::JoinReply& reply) {
  if (flags.launch.trace_events.empty()) return nullptr;
  const std::string own = spec.flags.num_servers > 1 ? fmt::format(".{}", reply.rank) : "";
  return sync::EventLog::create(flags.launch.trace_events + own, reply.restores.has_value());
}

std::vector<std::string> names_of(const Network& network) {
  std::vector<std::string> names;
  for (const graph::ParameterInfo& parameter : network.shapes.parameters) names.push_back(parameter.name);
  return names;
}

}  // namespace

Result<kvstore::ShardOptions> shard_options(const job::Flags& flags, const job::JobSpec& spec, const Network& network,
                                            uint32_t rank) {
  const job::JobPlan plan = job::plan_of(spec);
  kvstore::ShardOptions options;
  options.server = rank;
  DT_TRY(options.placement, kvstore::parse_placement(spec.placement, static_cast<size_t>(spec.flags.num_servers)),
         "reading the job's placement");
  options.rule = update_rule(spec.flags, plan);
  for (const graph::ParameterInfo& parameter : network.shapes.parameters) {
    options.parameters.push_back(optim::multipliers_of(parameter.kind, parameter.rule, options.rule.optimizer));
  }
  options.sums_only = plan.servers_only_sum;
  options.weight = staleness_weight(spec.flags, plan);
  options.policy = job::policy_of_seats(spec);
  options.deterministic = spec.flags.scheme.deterministic;
  options.threads = shard_threads(flags, spec.flags.scheme.reduce_threads);
  return options;
}

namespace {

// Where the servers keep their snapshots.
std::string snapshot_directory(const Process& process) {
  const std::string& state_dir = process.flags.launch.state_dir;
  return (state_dir.empty() ? process.run_dir.path() : state_dir) + "/snapshots";
}

Result<std::unique_ptr<kvstore::Shard>> make_shard(const Process& process, const rpc::JoinReply& reply,
                                                   const job::JobSpec& spec, sync::EventLog* event_log,
                                                   rpc::ControlClient& control,
                                                   std::function<void(const Error&)> on_failure) {
  const uint32_t rank = reply.rank;
  DT_TRY(const Network network, build_network(spec.flags));
  DT_TRY(kvstore::ShardOptions options, shard_options(process.flags, spec, network, rank));
  if (job::store_of(spec.flags).scheme == job::Scheme::kGsp) {
    options.on_report = [log = process.log](const kvstore::GroupReport& report) { log.info("{}", line(report)); };
  }
  options.on_rate = [log = process.log](const kvstore::RateChange& change, uint64_t update) {
    const std::string when = change.from_samples > 0 ? fmt::format(" after {} samples", change.from_samples) : "";
    log.info("learning rate changed{}: from update {} on, it is {:g} times that of the schedule", when, update,
             change.factor);
  };
  if (!own_faults(process.flags, rank).points.empty()) {
    options.on_update = [points = process.fail_points](uint64_t version) { points->reach_step(version); };
  }
  options.on_failure = std::move(on_failure);
  options.on_not_finite = [log = process.log, names = names_of(network)](const kvstore::Slice& slice, uint32_t worker) {
    log.error(
        "the sum of the gradients of '{}' (key {} slice {}) is not finite, because of the gradient of worker {}; the "
        "weights are not updated, and the workers that wait for them end with an error",
        names[slice.key], slice.key, slice.part, worker);
  };
  options.on_corrupt = [log = process.log](uint32_t worker, uint64_t count) {
    if (count % kCorruptPerLine != 1) return;
    log.warn(
        "refused a message from worker {}, because its checksum is wrong; {} such messages so far for the same slice "
        "of the weights",
        worker, count);
  };
  options.event_log = event_log;
  options.tracer = process.tracer.get();
  options.snapshots = {.every = static_cast<uint64_t>(spec.flags.scheme.snapshot_every),
                       .directory = snapshot_directory(process),
                       .job = fmt::format("{} {:016x}", process.run_dir.path(), job::hash(spec)),
                       .life = reply.restores ? *reply.restores + 1 : 0,
                       .log = process.log};
  options.snapshots.on_durable = [&control, every = options.snapshots.every](const std::vector<uint64_t>& durable) {
    rpc::SnapshotReport report;
    for (const uint64_t number : durable) report.versions.push_back(number * every);
    control.report_snapshots(std::move(report));
  };
  return kvstore::Shard::create(std::move(options));
}

// The view with which the job begins: the seats that nobody has are empty.
std::vector<sync::Seat> seats_at_start(const rpc::JoinReply& reply) {
  std::vector<sync::Seat> seats(reply.seats, {.incarnation = 0, .state = sync::Seat::State::kEmpty});
  for (const rpc::Node& node : reply.of(rpc::Role::kWorker)) {
    seats[node.member.rank] = {.incarnation = node.incarnation};
  }
  return seats;
}

// What the server has carried out when it begins. One that takes the place of a lost server lets nobody connect before
// it gets a view.
sync::View view_at_start(const rpc::JoinReply& reply) {
  if (!reply.restores) return {.workers = seats_at_start(reply)};
  return {.workers = {reply.seats, sync::Seat{.incarnation = 0, .state = sync::Seat::State::kEmpty}},
          .restores = *reply.restores};
}

// Lets the workers connect, and leaves the empty seats out of all rounds. `is_new`: whether the server takes the place
// of a lost one. Workers then know its address already, and try again until a view lets them in.
void begin_serving(const std::vector<sync::Seat>& seats, bool is_new, rpc::DataServer& data, kvstore::Shard& shard,
                   const std::function<void(const Error&)>& on_failure) {
  std::vector<uint64_t> incarnations;
  for (uint32_t rank = 0; rank < seats.size(); rank++) {
    const uint64_t nobody = is_new ? rpc::DataServer::kAwaited : 0;
    incarnations.push_back(seats[rank].is_live() ? seats[rank].incarnation : nobody);
    if (!seats[rank].is_live()) shard.leave(rank);
  }
  data.serve(std::move(incarnations), shard, on_failure);
}

void report_snapshots(const kvstore::Shard& shard, rpc::ControlClient& control) {
  const kvstore::Snapshots* snapshots = shard.snapshots();
  rpc::SnapshotReport report{.versions = {}, .needs_none = snapshots == nullptr};
  if (snapshots != nullptr) {
    for (const uint64_t number : snapshots->durable()) report.versions.push_back(number * snapshots->every());
  }
  control.report_snapshots(std::move(report));
}

// What this server does when a lost one was replaced.
class Restorer {
 public:
  // `all_go_back`: if not, only a new server goes back, and others begin new rounds with what they have. `is_new`:
  // whether this server takes the place of a lost one.
  Restorer(kvstore::Shard& shard, bool all_go_back, bool is_new, Log log)
      : shard_(shard), all_go_back_(all_go_back), is_new_(is_new), log_(std::move(log)) {}

  Result<> restore(const sync::seat::Restore& to) {
    shard_.shut_out_workers();
    if (!std::exchange(is_new_, false) && !all_go_back_) return shard_.begin_anew();
    const kvstore::Snapshots* snapshots = shard_.snapshots();
    if (snapshots == nullptr) return shard_.restore(0);
    const uint64_t number = all_go_back_ ? to.version / snapshots->every() : snapshots->durable().back();
    const uint64_t version = number * snapshots->every();
    DT_TRY_VOID(shard_.restore(number), "going back to the snapshot of version {}", version);
    log_.warn("went back to the snapshot of version {}, because {}", version,
              all_go_back_ ? "a server was replaced" : "this server replaces a lost one");
    return {};
  }

 private:
  kvstore::Shard& shard_;
  const bool all_go_back_;
  bool is_new_;  // false once it has gone back
  const Log log_;
};

// Whether the view still gives this server its rank.
bool has_place(const sync::View& view, const rpc::Node& own) {
  if (own.member.rank >= view.servers.size()) return true;
  const sync::ServerSeat& seat = view.servers[own.member.rank];
  return seat.is_live && seat.incarnation == own.incarnation;
}

// Waits for the end of the job. Meanwhile lets workers join the rounds, takes those that are gone out of them, and goes
// back to a snapshot if another server was lost.
Result<> follow_views(rpc::ControlClient& control, const rpc::Node& own, sync::View start, rpc::DataServer& data,
                      kvstore::Shard& shard, Restorer restorer, const Log& log) {
  sync::seat::Server seats(std::move(start));
  const auto carry_out =
      Overloaded{[&](const sync::seat::EndStreams& end) -> Result<> {
                   data.end_worker(end.rank, end.returns);
                   return {};
                 },
                 [&](const sync::seat::LeaveRounds& leave) -> Result<> {
                   shard.leave(leave.rank);
                   log.info("worker {} no longer takes part; no round waits for it", leave.rank);
                   return {};
                 },
                 [&](const sync::seat::AdmitStreams& admit) -> Result<> {
                   shard.admit(admit.rank, admit.incarnation);
                   data.admit_worker(admit.rank, admit.incarnation);
                   return {};
                 },
                 [&](const sync::seat::JoinRounds& join) -> Result<> {
                   shard.join(join.rank, join.begin);
                   log.info("worker {} takes part in the rounds from step {} on", join.rank, join.begin);
                   return {};
                 },
                 [&](const sync::seat::Restore& restore) { return restorer.restore(restore); }};
  while (true) {
    DT_TRY(const std::optional<sync::View> view, control.wait_view());
    if (!view) return {};
    if (!has_place(*view, own)) {
      return fail(Code::kPeerLost, "this server counts as lost; the scheduler's log says why");
    }
    std::vector<sync::seat::ServerEffect> effects;
    seats.on(*view, effects);
    for (const sync::seat::ServerEffect& effect : effects) DT_TRY_VOID(std::visit(carry_out, effect));
    if (view->must_restore) report_snapshots(shard, control);  // so that the scheduler chooses from the newest reports
    control.acknowledge_view(view->number);
  }
}

// Runs from the join to the end of the job. All objects created here are destroyed before the control line.
Result<> serve(Process& process, rpc::ControlClient& control, rpc::DataServer& data, const Waits& waits,
               const rpc::JoinRequest& request, rpc::Incarnation incarnation) {
  DT_TRY(const rpc::JoinReply reply, control.join(request), "joining the job");
  DT_TRY_VOID(process.take_rank(reply.rank));
  DT_TRY(const std::unique_ptr<Observer> observer, Observer::of_process(process, [&] {
           return observe::JobState{.processes = {own_state(*process.registry, waits, "server", reply.rank)}};
         }));
  DT_TRY(job::JobSpec spec, job::parse_job_spec(reply.job_text), "reading the job's description");
  spec.flags.network.file = process.flags.job.network.file;
  DT_TRY_VOID(adopt_spec(process.flags, spec, process.run_dir.path(), process.resumed));
  set_host_roles(host_share(reply, rpc::Role::kServer), process.flags.launch);
  DT_TRY(const std::unique_ptr<sync::EventLog> event_log, open_event_log(process.flags, spec, reply),
         "opening --trace-events");
  // An error in the shard or the data connections ends the wait for the end of the job below.
  const auto on_failure = [&control](const Error& error) { control.fail_with(error); };
  DT_TRY(const std::unique_ptr<kvstore::Shard> shard,
         make_shard(process, reply, spec, event_log.get(), control, on_failure));
  process.tracer->record_messages();
  const sync::View start = view_at_start(reply);
  begin_serving(start.workers, reply.restores.has_value(), data, *shard, on_failure);
  if (spec.flags.scheme.snapshot_every > 0) report_snapshots(*shard, control);
  process.log.info("server {} of {} serves {} workers", reply.rank, spec.flags.num_servers, spec.flags.num_workers);
  Result<> finished;
  {
    const telemetry::Registry::Handle collected = collect(*process.registry, *shard);
    const WaitLog wait_log([&](double seconds) { return shard->overdue(seconds); }, spec.flags.scheme.ssp_warn,
                           process.log);
    const rpc::Node own{{rpc::Role::kServer, reply.rank}, incarnation, request.address};
    Restorer restorer(*shard, job::all_go_back(spec.flags), reply.restores.has_value(), process.log);
    finished = follow_views(control, own, start, data, *shard, std::move(restorer), process.log);
  }
  // The connections are closed in every case, because workers may still be sending, and the shard is destroyed at the
  // end of this function.
  data.close();
  process.tracer->finish();
  Result<> reported = report(process, reply.rank, shard->counts());
  DT_TRY_VOID(std::move(finished));
  shard->discard_snapshots();
  if (event_log != nullptr) DT_TRY_VOID(event_log->finish());
  return reported;
}

}  // namespace

Result<int> run_server(const job::Flags& flags, const Signals& signals) {
  DT_TRY(Process process, Process::open(flags, signals, "server"));
  const int64_t connections = job::kConnectionsPerServer * job::worker_seats(flags.job);
  DT_TRY_VOID(job::check_open_files(job::descriptors_for(connections), "a server"));
  flush_denormals();
  DT_TRY(const rpc::Security security, security_of(flags.launch));
  DT_TRY(const ServerAddress address, server_address(flags.launch, security.token));
  rpc::DataServerOptions options{address.listen, security};
  options.unread_limit = process.flags.wire.heartbeat_timeout;
  options.streams = static_cast<uint64_t>(connections);
  Waits waits;
  DT_TRY(const std::unique_ptr<rpc::DataServer> data, rpc::DataServer::start(std::move(options), waits, process.log));
  const rpc::Incarnation incarnation = rpc::make_incarnation();
  DT_TRY(rpc::ControlOptions to_scheduler, control_options(flags, security, incarnation));
  to_scheduler.tracer = process.tracer.get();
  to_scheduler.registry = process.registry.get();
  if (flags.wire.inject.counts_messages()) to_scheduler.fail_points = process.fail_points;
  const std::unique_ptr<rpc::ControlClient> control =
      rpc::ControlClient::create(std::move(to_scheduler), waits, process.log);
  rpc::JoinRequest request = join_request(flags, rpc::Role::kServer);
  request.address = net::to_text({address.host, data->port()});
  Result<> outcome;
  {
    const SignalWatcher watcher(
        signals, waits, process.log, [&] { control->request_stop(); },
        [&] { control->request_trace(steps_to_trace(flags)); });
    outcome = catching([&] { return serve(process, *control, *data, waits, request, incarnation); });
  }
  control->done(outcome);
  data->close();
  DT_TRY_VOID(std::move(outcome), "running server {}", flags.launch.rank.value_or(0));
  return job::kExitOk;
}

}  // namespace dtrain::role
