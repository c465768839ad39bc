#include "role/worker/worker.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "base/host_limits.h"
#include "job/process/exit_code.h"
#include "kvstore/wire/faults.h"
#include "kvstore/worker/dist_store.h"
#include "role/process/membership.h"
#include "role/process/process.h"
#include "role/process/report.h"
#include "role/process/wait_log.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/worker/joining.h"
#include "role/worker/message_log.h"
#include "role/worker/stores.h"
#include "role/worker/test_io.h"
#include "role/worker/training.h"
#include "rpc/data_client.h"

namespace dtrain::role {
namespace {

// The scheduler reports a lost process at most this time after the heartbeat timeout.
constexpr std::chrono::seconds kDetectionTime{2};
constexpr std::chrono::minutes kLongWait{1};  // waits that last longer than this are logged

std::vector<std::string> server_addresses(const rpc::JoinReply& reply) {
  std::vector<std::string> addresses;
  for (const rpc::Node& node : reply.of(rpc::Role::kServer)) addresses.push_back(node.address);
  return addresses;
}

// Creates the store over the servers; null if the job has none.
Result<std::unique_ptr<kvstore::DistStore>> make_dist_store(const StoreSetup& setup, const Process& process,
                                                            const Connection& connection) {
  if (setup.spec.flags.num_servers == 0) return nullptr;
  DT_TRY(kvstore::DistStoreOptions options, dist_store_options(setup.flags, setup.spec, setup.plan));
  options.log = process.log;
  options.timeline = setup.timeline;
  options.rank = setup.coordinator.rank();
  options.incarnation = connection.incarnation;
  options.bucket_begin = setup.bucket_begin;
  return kvstore::DistStore::create(std::move(options), setup.waits);
}

// The connections to the servers, with the message faults that --inject asks for. Empty if the job has no servers.
struct Lines {
  std::unique_ptr<kvstore::FaultyTransport> faults;
  std::unique_ptr<MessageLog> messages;    // the log of messages; null without --verbose 2
  telemetry::Registry::Handle requests;    // keeps the metrics of the store's requests and messages up to date
  std::unique_ptr<rpc::DataClient> pipes;  // destroyed first, because it calls the other members
};

// For each server, the faults of the messages between it and this worker, as --inject requests for either end.
std::vector<kvstore::Faults> message_faults(const job::Inject& inject, uint32_t rank, int64_t servers) {
  const job::Faults own = inject.of({job::Role::kWorker, rank});
  std::vector<kvstore::Faults> by_server;
  for (int64_t server = 0; server < servers; server++) {
    const job::Faults its = inject.of({job::Role::kServer, server});
    by_server.push_back({.drop = std::max(own.drop, its.drop),
                         .dup = std::max(own.dup, its.dup),
                         .delay_min = kvstore::FaultDelay(std::max(own.delay.min_ms, its.delay.min_ms)),
                         .delay_max = kvstore::FaultDelay(std::max(own.delay.max_ms, its.delay.max_ms)),
                         .seed = inject.seed.value_or(0)});
  }
  return by_server;
}

void set_metrics(const kvstore::DistStore& store, telemetry::Registry& to) {
  using telemetry::Metric;
  const kvstore::RequestCounts counts = store.requests();
  to.set(Metric::kOpenRequests, static_cast<double>(counts.open));
  to.set(Metric::kUnsentRequests, static_cast<double>(counts.unsent));
  const std::vector<kvstore::Traffic> by_server = store.traffic();
  for (size_t server = 0; server < by_server.size(); server++) {
    const std::string peer = fmt::format("server {}", server);
    const kvstore::Traffic& traffic = by_server[server];
    to.set(Metric::kSentBytes, static_cast<double>(traffic.sent), peer);
    to.set(Metric::kSentMessages, static_cast<double>(traffic.sent_messages), peer);
    to.set(Metric::kReceivedBytes, static_cast<double>(traffic.received), peer);
    to.set(Metric::kReceivedMessages, static_cast<double>(traffic.received_messages), peer);
  }
}

Result<Lines> connect_to_servers(Process& process, Connection& connection, const JoinedJob& joined,
                                 kvstore::DistStore* store) {
  const rpc::JoinReply& reply = joined.reply;
  const job::Inject& inject = process.flags.wire.inject;
  Lines lines;
  if (store == nullptr) return lines;
  const auto fail_store = [store](const Error& error) { store->cancel(error); };
  kvstore::ClientEvents* events = store;
  if (inject.touches_messages()) {
    lines.faults = std::make_unique<kvstore::FaultyTransport>(
        reply.rank, message_faults(inject, reply.rank, joined.spec.flags.num_servers), *store, fail_store);
    events = lines.faults.get();
  }
  if (process.log.verbosity() >= 2) {
    lines.messages = std::make_unique<MessageLog>(*events, process.log);
    events = lines.messages.get();
  }
  const std::vector<std::string> servers = server_addresses(reply);
  lines.requests = process.registry->collect([store](telemetry::Registry& to) { set_metrics(*store, to); });
  DT_TRY(lines.pipes, rpc::DataClient::create({.servers = servers,
                                               .rank = reply.rank,
                                               .host = host_name(),
                                               .incarnation = connection.incarnation,
                                               .security = connection.security,
                                               .heartbeat_timeout = process.flags.wire.heartbeat_timeout,
                                               .fail_points = inject.counts_messages() ? process.fail_points : nullptr},
                                              *events, connection.waits, process.log));
  lines.pipes->on_failure(fail_store);
  lines.pipes->on_lost_links(
      [&control = *connection.control](const std::vector<rpc::LostLink>& links) { control.report_lost_links(links); });
  {
    const Listening listening(connection.failure, [&](const Error& error) { lines.pipes->cancel(error); });
    // The servers of a running job are there. A worker that does not reach them must not keep its seat from another.
    const job::WireFlags& wire = process.flags.wire;
    const auto limit =
        process.flags.launch.joins ? std::min(wire.start_timeout, wire.heartbeat_timeout) : wire.start_timeout;
    DT_TRY_VOID(lines.pipes->connect(limit), "connecting to the servers");
  }
  std::vector<std::shared_ptr<kvstore::Pipe>> pipes = lines.pipes->pipes();
  if (lines.messages) pipes = lines.messages->wrap(pipes);
  store->attach(lines.faults ? lines.faults->wrap(pipes) : pipes);
  return lines;
}

void log_faults(const Lines& lines, const Log& log) {
  if (lines.faults == nullptr) return;
  const kvstore::FaultCounts counts = lines.faults->counts();
  log.info(
      "--inject: of {} messages, {} were lost and {} were duplicated; unanswered messages were sent again {} times",
      counts.messages, counts.lost, counts.doubled, counts.breaks);
}

// Replaces an error of the group by the scheduler's error. When a worker of a group is lost, the others notice at once
// and leave the group too, so the group's error may not name the worker that was lost first. The scheduler knows that
// worker, and reports it within the heartbeat timeout and kDetectionTime.
Result<train::TrainOutcome> with_notice(Result<train::TrainOutcome> outcome, const job::WireFlags& wire,
                                        Connection& connection) {
  if (outcome || outcome.error().code != Code::kPeerLost) return outcome;
  const Waits::Wait wait(connection.waits, [] { return std::string("the scheduler to say who was lost"); });
  if (std::optional<Error> notice = connection.failure.wait(wire.heartbeat_timeout + kDetectionTime)) {
    if (notice->message == outcome.error().message) return tl::unexpected(std::move(outcome.error()));
    return tl::unexpected(std::move(*notice).with(outcome.error().message));
  }
  return outcome;
}

// Tells the store which processes are gone: one that hangs keeps its connections, so the others would wait for it in
// their step. Leads the connections to a server that was replaced to the new one.
class ViewWatch {
 public:
  // `pipes`: null without servers.
  ViewWatch(rpc::ControlClient& control, kvstore::Store& store, rpc::DataClient* pipes, const rpc::JoinReply& reply,
            Log log)
      : control_(control),
        group_(store.worker_group()),
        links_(store.server_links()),
        pipes_(pipes),
        log_(std::move(log)) {
    for (const rpc::Node& server : reply.of(rpc::Role::kServer)) servers_.push_back(server.incarnation);
    if (group_ == nullptr && (links_ == nullptr || pipes_ == nullptr)) return;
    control_.watch_views([this](const sync::View& view) {
      if (group_ != nullptr) look_at_group(view);
      if (links_ != nullptr && pipes_ != nullptr) look_at_servers(view);
    });
  }
  ~ViewWatch() { control_.watch_views(nullptr); }
  ViewWatch(const ViewWatch&) = delete;
  ViewWatch& operator=(const ViewWatch&) = delete;

 private:
  void look_at_group(const sync::View& view) const {
    for (const uint32_t rank : group_->members()) {
      if (rank < view.workers.size() && view.workers[rank].is_live()) continue;
      return group_->break_up({Code::kPeerLost, fmt::format("worker {} no longer takes part", rank), {}});
    }
  }
  // A server that has just taken the place of a lost one has no values yet, so no request may reach it before all have
  // gone back.
  void look_at_servers(const sync::View& view) {
    if (view.must_restore) {
      const auto lost = std::ranges::find(view.servers, false, &sync::ServerSeat::is_live);
      const auto rank = lost - view.servers.begin();
      const bool is_replaced = lost == view.servers.end();
      links_->break_up(
          {Code::kPeerLost, is_replaced ? "a server was replaced" : fmt::format("server {} was lost", rank), {}});
    }
    for (size_t rank = 0; rank < std::min(servers_.size(), view.servers.size()); rank++) {
      const sync::ServerSeat& seat = view.servers[rank];
      if (!seat.is_live || std::exchange(servers_[rank], seat.incarnation) == seat.incarnation) continue;
      if (const Result<> moved = pipes_->move(static_cast<uint32_t>(rank), seat.address); !moved) {
        log_.error("{}", moved.error().line());
      }
    }
    if (!view.must_restore) links_->mend();
  }

  rpc::ControlClient& control_;
  kvstore::WorkerGroup* const group_;
  kvstore::ServerLinks* const links_;
  rpc::DataClient* const pipes_;
  const Log log_;
  std::vector<uint64_t> servers_;  // the incarnation of each server to which this worker's connections lead
};

// Ends the worker; the leader reports for the whole job.
Result<int> end_worker(const Process& process, const Connection& connection, const JoinedJob& joined,
                       const Result<train::TrainOutcome>& outcome, Clock::time_point started) {
  if (outcome && outcome->left) return job::kExitOk;
  if (!outcome && connection.control->has_lost_seat()) return tl::unexpected(outcome.error());
  if (connection.control->leads()) return report_end(process, joined.spec, outcome, started);
  if (!outcome) return tl::unexpected(outcome.error());
  return outcome->stopped ? job::kExitPreempted : job::kExitOk;
}

// Runs --test-io 1. The servers have nothing to do, and end with the job.
Result<int> read_only(const Process& process, Connection& connection, const JoinedJob& joined, const Network& network) {
  const Clock::time_point started = Clock::now();
  const Result<train::TrainOutcome> outcome = with_notice(
      test_io({process, joined.spec, network, joined.data, *connection.control}), process.flags.wire, connection);
  return end_worker(process, connection, joined, outcome, started);
}

// Trains as the JobSpec says. The order of the objects matters for their destruction: the transport refers to the
// store, which `training` owns, and the store refers to the executors' memory.
Result<int> train(Process& process, Connection& connection, const JoinedJob& joined) {
  const Clock::time_point started = Clock::now();
  const auto& [reply, spec, plan, data] = joined;
  if (reply.rank == 0 && !process.flags.launch.joins) {
    DT_TRY_VOID(introduce_data(process.flags, data, process.run_dir.path(), process.log), "writing the run directory");
    DT_TRY_VOID(prepare_checkpoints(process.flags, process.run_dir.path()));
  }
  DT_TRY(const Network network, build_network(spec.flags));
  if (process.flags.loop.test_io) return read_only(process, connection, joined, network);
  kvstore::DistStore* servers = nullptr;  // the store over the servers; null if the job has none
  DT_TRY(const std::unique_ptr<Training> training,
         Training::build({.process = process,
                          .spec = spec,
                          .plan = plan,
                          .network = network,
                          .data = data,
                          .coordinator = *connection.control,
                          .waits = connection.waits,
                          .host = host_share(reply, rpc::Role::kWorker)},
                         [&](const StoreSetup& setup, const Devices& devices,
                             exec::DeviceGroup& executors) -> Result<std::unique_ptr<kvstore::Store>> {
                           DT_TRY(auto dist_store, make_dist_store(setup, process, connection));
                           servers = dist_store.get();
                           return join_devices(setup, devices, executors, std::move(dist_store));
                         }));
  DT_TRY(const Lines lines, connect_to_servers(process, connection, joined, servers));
  const Listening listening(connection.failure, [&](const Error& error) { training->cancel(error); });
  const ViewWatch view_watch(*connection.control, training->store(), lines.pipes.get(), reply, process.log);
  const WaitLog wait_log(own_waits(connection.waits), kLongWait, process.log);
  const Result<train::TrainOutcome> outcome = with_notice(training->run(), process.flags.wire, connection);
  process.tracer->finish();
  if (lines.pipes) lines.pipes->close();
  log_faults(lines, process.log);
  return end_worker(process, connection, joined, outcome, started);
}

}  // namespace

Result<int> run_worker(const job::Flags& flags, const Signals& signals) {
  return run_in_job(flags, signals, train);
}

}  // namespace dtrain::role
