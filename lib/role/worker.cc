#include "role/worker.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "job/data_set.h"
#include "job/exit_code.h"
#include "kvstore/dist/dist_store.h"
#include "kvstore/dist/faults.h"
#include "role/addresses.h"
#include "role/membership.h"
#include "role/process.h"
#include "role/report.h"
#include "role/signal_watcher.h"
#include "role/stores.h"
#include "role/training.h"
#include "rpc/control_client.h"
#include "rpc/data_client.h"

namespace dtrain::role {
namespace {

constexpr std::chrono::seconds kDetectionTime{2};  // what R-F1 adds to the heartbeats' timeout

// Carries the job's failure, whenever it comes and on whichever thread, to what the step loop waits in. The control
// line lives longer than store and pipes, so it is told of them for as long as they are there.
class FailureRelay {
 public:
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    pass_on();
    failed_.notify_all();
  }
  // The job's failure if it comes within the limit.
  std::optional<Error> wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    failed_.wait_for(lock, limit, [this] { return error_.has_value(); });
    return error_;
  }
  // `end` is called, once, with the failure that has come or will come; nullptr: nobody listens any more.
  void listen(std::function<void(const Error&)> end) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    pass_on();
  }

 private:
  void pass_on() {
    if (error_ && end_) std::exchange(end_, nullptr)(*error_);
  }

  std::mutex mutex_;
  std::condition_variable failed_;
  std::optional<Error> error_;
  std::function<void(const Error&)> end_;
};

// What a worker has before it joins.
struct Connection {
  rpc::Security security;
  rpc::Incarnation incarnation = rpc::make_incarnation();
  Waits waits;
  FailureRelay failure;  // before the control line, whose thread calls it
  std::unique_ptr<rpc::ControlClient> control;
};

class Listening {
 public:
  Listening(FailureRelay& relay, std::function<void(const Error&)> end) : relay_(relay) {
    relay_.listen(std::move(end));
  }
  ~Listening() { relay_.listen(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  FailureRelay& relay_;
};

std::vector<std::string> server_addresses(const rpc::JoinReply& reply) {
  std::vector<std::string> addresses;
  for (const rpc::Node& node : reply.of(rpc::Role::kServer)) addresses.push_back(node.address);
  return addresses;
}

// The store over the servers; nullptr: the job has none.
Result<std::unique_ptr<kvstore::DistStore>> make_dist_store(const job::JobSpec& spec,
                                                            const std::vector<size_t>& bucket_begin, uint32_t rank,
                                                            int update_threads, Connection& connection) {
  if (spec.flags.num_servers == 0) return nullptr;
  kvstore::DistStoreOptions options;
  options.rank = rank;
  options.incarnation = connection.incarnation;
  DT_TRY(options.placement, kvstore::parse_placement(spec.placement), "reading the job's placement");
  options.bucket_begin = bucket_begin;
  options.rule = update_rule(spec);
  options.sums_only = servers_only_sum(spec.flags);
  options.update_threads = update_threads;
  const sync::Policy policy = policy_of(spec);
  options.skips_steps = policy.backup > 0;
  options.workers_differ = !has_same_weights(policy);
  return kvstore::DistStore::create(std::move(options), connection.waits);
}

// The lines to the servers, with the faults that --inject asks for; nothing where the job has no servers.
struct Lines {
  std::unique_ptr<kvstore::FaultyTransport> faults;
  std::unique_ptr<rpc::DataClient> pipes;  // calls the faults: ends before them
};

// By server: what either end does to the messages between them.
std::vector<kvstore::Faults> message_faults(const job::Flags& flags, uint32_t rank) {
  const job::Inject& inject = flags.wire.inject;
  const job::Faults own = inject.of({job::Role::kWorker, rank});
  std::vector<kvstore::Faults> by_server;
  for (int64_t server = 0; server < flags.job.num_servers; server++) {
    const job::Faults its = inject.of({job::Role::kServer, server});
    by_server.push_back({.drop = std::max(own.drop, its.drop),
                         .dup = std::max(own.dup, its.dup),
                         .delay_min = kvstore::FaultDelay(std::max(own.delay.least_ms, its.delay.least_ms)),
                         .delay_max = kvstore::FaultDelay(std::max(own.delay.most_ms, its.delay.most_ms)),
                         .seed = inject.seed.value_or(0)});
  }
  return by_server;
}

Result<Lines> connect_to_servers(Process& process, Connection& connection, const rpc::JoinReply& reply,
                                 kvstore::DistStore* store) {
  Lines lines;
  if (store == nullptr) return lines;
  const auto fail_store = [store](const Error& error) { store->cancel(error); };
  kvstore::ClientEvents* events = store;
  if (process.flags.wire.inject.touches_messages()) {
    lines.faults = std::make_unique<kvstore::FaultyTransport>(reply.rank, message_faults(process.flags, reply.rank),
                                                              *store, fail_store);
    events = lines.faults.get();
  }
  DT_TRY(lines.pipes, rpc::DataClient::create({.servers = server_addresses(reply),
                                               .rank = reply.rank,
                                               .incarnation = connection.incarnation,
                                               .security = connection.security},
                                              *events, connection.waits, process.log));
  lines.pipes->on_failure(fail_store);
  DT_TRY_VOID(lines.pipes->connect(process.flags.wire.start_timeout), "connecting to the servers");
  const std::vector<std::shared_ptr<kvstore::Pipe>> pipes = lines.pipes->pipes();
  store->attach(lines.faults ? lines.faults->wrap(pipes) : pipes);
  return lines;
}

// The job's flags are the JobSpec's; what belongs to the process stays its own.
job::Flags job_flags(const Process& process, const job::JobSpec& spec) {
  job::Flags flags = process.flags;
  flags.job = spec.flags;
  return flags;
}

// A group of workers notices at once that one of them is gone; but by then those that noticed first are gone from it
// too. Who was lost the scheduler knows, within the time of R-F1.
Result<train::TrainOutcome> with_verdict(Result<train::TrainOutcome> outcome, const job::WireFlags& wire,
                                         Connection& connection) {
  if (outcome || outcome.error().code != Code::kPeerLost) return outcome;
  const Waits::Wait wait(connection.waits, [] { return std::string("the scheduler to say who was lost"); });
  if (std::optional<Error> verdict = connection.failure.wait(wire.heartbeat_timeout + kDetectionTime)) {
    return tl::unexpected(std::move(*verdict).with(outcome.error().message));
  }
  return outcome;
}

// Trains as the job says. The order of the objects is the order in which they may end: the transport refers to the
// store, which `training` owns, and the store to the executors' memory.
Result<int> train(Process& process, Connection& connection, const rpc::JoinReply& reply, const job::JobSpec& spec,
                  const data::DataSets& data) {
  const Clock::time_point started = Clock::now();
  DT_TRY(const Network network, build_network(spec.flags));
  const std::vector<size_t> bucket_begin = plan_buckets(process.flags, network);
  DT_TRY(std::unique_ptr<kvstore::DistStore> dist_store,
         make_dist_store(spec, bucket_begin, reply.rank, plan_threads(process.flags).compute, connection));
  kvstore::DistStore* const servers = dist_store.get();
  const StoreSetup store_setup{.flags = process.flags,
                               .spec = spec,
                               .bucket_begin = bucket_begin,
                               .coordinator = *connection.control,
                               .waits = connection.waits};
  Pacer pacer(std::chrono::duration<double, std::milli>(own_faults(process.flags, reply.rank).step_ms),
              connection.waits);
  DT_TRY(const std::unique_ptr<Training> training,
         Training::build(
             {.flags = process.flags,
              .spec = spec,
              .network = network,
              .data = data,
              .bucket_begin = bucket_begin,
              .coordinator = *connection.control,
              .run_dir = process.run_dir,
              .resumed = process.resumed,
              .log = process.log,
              .pacer = &pacer},
             [&](const Devices&, exec::DeviceGroup&) { return join_devices(store_setup, std::move(dist_store)); }));
  kvstore::Store& store = training->store();
  const Listening listening(connection.failure, [&](const Error& error) {
    store.cancel(error);
    pacer.cancel(error);
  });
  DT_TRY(const Lines lines, connect_to_servers(process, connection, reply, servers));
  const Result<train::TrainOutcome> outcome = with_verdict(training->run(), process.flags.wire, connection);
  if (lines.pipes) lines.pipes->close();
  if (reply.rank != 0) {
    if (!outcome) return tl::unexpected(outcome.error());
    return outcome->stopped ? job::kExitPreempted : job::kExitOk;
  }
  return conclude(process, spec, training->outcome(), outcome, started);
}

Result<int> join_and_train(Process& process, Connection& connection) {
  DT_TRY(data::DataSets data, open_data(process.flags, 0, process.log), "opening the data");
  rpc::JoinRequest request = join_request(process.flags, rpc::Role::kWorker);
  DT_TRY(request.address, own_host(process.flags.launch));
  request.records_train = static_cast<uint64_t>(data.train->size());
  request.records_val = data.validation == nullptr ? 0 : static_cast<uint64_t>(data.validation->size());
  DT_TRY(const rpc::JoinReply reply, connection.control->join(request), "joining the job");
  DT_TRY_VOID(process.take_rank(reply.rank));
  DT_TRY(const job::JobSpec spec, job::parse_job_spec(reply.job_text), "reading the job's description");
  process.flags = job_flags(process, spec);
  process.log.info("start with arguments {}", job::describe(process.flags));
  if (spec.flags.augment.benchmark) {  // drawn from the job's seed and the rank, which are known only now
    DT_TRY(data, open_data(process.flags, reply.rank, process.log));
  }
  return train(process, connection, reply, spec, data);
}

}  // namespace

Result<int> run_worker(const job::Flags& flags, const Signals& signals) {
  DT_TRY(Process process, Process::open(flags, signals, "worker"));
  DT_TRY_VOID(job::apply_own_data_set(process.flags));
  Connection connection;
  DT_TRY(connection.security, security_of(flags.launch));
  DT_TRY(rpc::ControlOptions options, control_options(flags, connection.security, connection.incarnation));
  connection.control = rpc::ControlClient::create(std::move(options), connection.waits, process.log);
  connection.control->on_failure([&](const Error& error) { connection.failure.fail(error); });
  Result<int> code = job::kExitInternal;
  {
    const SignalWatcher watcher(signals, connection.waits, process.log, [&] { connection.control->request_stop(); });
    const Result<> ended = catching([&]() -> Result<> {
      code = join_and_train(process, connection);
      return {};
    });
    if (!ended) code = tl::unexpected(ended.error());
  }
  Result<> outcome;
  if (!code) outcome = tl::unexpected(code.error());
  if (code && *code == job::kExitPreempted) outcome = fail(Code::kPreempted, "stopped as asked");
  connection.control->done(outcome);
  return code;
}

}  // namespace dtrain::role
