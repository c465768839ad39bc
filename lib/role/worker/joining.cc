#include "role/worker/joining.h"

#include <utility>

#include "base/random.h"
#include "base/step_faults.h"
#include "data/records/label_list.h"
#include "job/process/exit_code.h"
#include "job/process/open_files.h"
#include "job/process/token.h"
#include "job/spec/job_plan.h"
#include "role/process/addresses.h"
#include "role/process/membership.h"
#include "role/process/observer.h"
#include "role/process/process.h"
#include "role/process/signal_watcher.h"
#include "role/process/tracing.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/worker/indexing.h"
#include "role/worker/meeting.h"

namespace dtrain::role {

void FailureRelay::fail(const Error& error) {
  const MutexLock lock(mutex_);
  if (!error_) error_ = error;
  pass_on();
  failed_.notify_all();
}

std::optional<Error> FailureRelay::wait(std::chrono::milliseconds limit) {
  const MutexLock lock(mutex_);
  failed_.wait_for(mutex_, limit, [this]() DT_REQUIRES(mutex_) { return error_.has_value(); });
  return error_;
}

void FailureRelay::listen(std::function<void(const Error&)> end) {
  const MutexLock lock(mutex_);
  end_ = std::move(end);
  pass_on();
}

void FailureRelay::pass_on() {
  if (error_ && end_) std::exchange(end_, nullptr)(*error_);
}

namespace {

// Returns the job's flags from the JobSpec, combined with the process's own flags.
job::Flags job_flags(const Process& process, const job::JobSpec& spec) {
  job::Flags flags = process.flags;
  flags.job = spec.flags;
  return flags;
}

// Includes the sizes of some records, evenly spread, which the index of a record file has without reading the records.
uint64_t hash_of(const data::Dataset* set, uint64_t hash) {
  constexpr int64_t kRecords = 1024;
  if (set == nullptr) return mix64(hash);
  const int64_t size = set->size(), step = std::max<int64_t>(1, size / kRecords);
  for (const int64_t length : set->image()) hash = mix64(hash ^ static_cast<uint64_t>(length));
  for (int64_t record = 0; record < size; record += step) {
    hash = mix64(hash ^ static_cast<uint64_t>(set->stored_bytes(record)));
  }
  return hash;
}

// `list`: of labels; null: none. Workers without servers also need the same number of devices.
rpc::Records records_of(const data::DataSets& data, const data::LabelList* list, const job::Flags& flags) {
  const auto size = [](const auto& set) { return set == nullptr ? 0 : static_cast<uint64_t>(set->size()); };
  const uint64_t of_sets = hash_of(data.validation.get(), hash_of(data.train.get(), 0));
  const uint64_t hash = mix64(of_sets ^ (list == nullptr ? 0 : list->hash()));
  const bool has_servers = job::store_of(flags.job).servers;
  return {.train = size(data.train),
          .val = size(data.validation),
          .hash = has_servers ? hash : mix64(hash ^ device_count(flags))};
}

Result<std::shared_ptr<const data::LabelList>> label_list(const job::Flags& flags) {
  const std::string& path = flags.data.path_imglist;
  if (path.empty()) return nullptr;
  return data::LabelList::read(path, static_cast<size_t>(flags.job.augment.label_width));
}

// A worker's data sets. Record files without an index cannot be opened yet, and their numbers of records are unknown.
class OwnData {
 public:
  static Result<OwnData> find(const Process& process) {
    OwnData own;
    DT_TRY(own.files_, record_files(process.flags), "opening the data");
    for (const data::IndexedFile& file : own.files_) {
      if (!data::lacks_index(file)) continue;
      own.lacks_index_ = true;
      DT_TRY_VOID(check_is_there(file), "opening the data");
    }
    // A worker that joins the running job cannot ask the others for the index.
    data::KnownOffsets known;
    if (own.lacks_index_ && process.flags.launch.joins) {
      DT_TRY(known, make_indexes(own.files_, process.run_dir.path(), process.log), "indexing the data");
      own.lacks_index_ = false;
    }
    if (!own.lacks_index_) DT_TRY_VOID(own.open(process, std::move(known)));
    return own;
  }

  [[nodiscard]] bool lacks_index() const { return lacks_index_; }
  [[nodiscard]] rpc::Records records() const { return records_; }
  data::DataSets take() { return std::move(sets_); }

  // Makes or receives the missing indexes. All workers of the job call it together.
  Result<rpc::Records> prepare(Process& process, Connection& connection) {
    const uint32_t rank = connection.control->rank();
    DT_TRY_VOID(process.take_rank(rank));
    Pacer pacer(std::chrono::duration<double, std::milli>(own_faults(process.flags, rank).index_ms), connection.waits);
    const Listening listening(connection.failure, [&](const Error& error) { pacer.cancel(error); });
    DT_TRY(data::KnownOffsets known, share_indexes(files_, {.coordinator = *connection.control,
                                                            .waits = connection.waits,
                                                            .log = process.log,
                                                            .pacer = pacer,
                                                            .directory = process.run_dir.path()}));
    if (lacks_index_) DT_TRY_VOID(open(process, std::move(known)));
    return records();
  }

 private:
  // Checks that the record file can be opened, so that its errors are reported before the process joins.
  static Result<> check_is_there(const data::IndexedFile& named) {
    DT_TRY(const data::RecordFile file, data::RecordFile::open(named.path));
    return data::check_is_record_file(file);
  }

  Result<> open(const Process& process, data::KnownOffsets known) {
    DT_TRY(sets_, open_data(process.flags, 0, process.log, std::move(known)), "opening the data");
    DT_TRY(const std::shared_ptr<const data::LabelList> list, label_list(process.flags), "opening the data");
    records_ = records_of(sets_, list.get(), process.flags);
    return {};
  }

  std::vector<data::IndexedFile> files_;
  bool lacks_index_ = false;
  data::DataSets sets_;
  rpc::Records records_;
};

// Compares the contents of the workers' lists of labels. The JobSpec says only whether there is a list, because its
// path may differ between hosts.
Result<> compare_label_lists(const job::Flags& flags, job::Coordinator& coordinator) {
  const std::string& path = flags.data.path_imglist;
  DT_TRY(const auto list, label_list(flags));
  const std::string mine = fmt::format("{:016x}", list->hash());
  DT_TRY(const std::string first, broadcast(coordinator, "the list of labels", mine));
  if (mine == first) return {};
  return fail(Code::kUsage,
              "--path-imglist {}: the list of worker {} differs from that of worker 0 (hashes {} and {}): give all "
              "workers the same list",
              path, coordinator.rank(), mine, first);
}

Result<JoinedJob> join(Process& process, Connection& connection) {
  JoinedJob joined;
  DT_TRY(OwnData own, OwnData::find(process));
  rpc::JoinRequest request = join_request(process.flags, rpc::Role::kWorker);
  DT_TRY(request.address, own_host(process.flags.launch));
  request.records_train = own.records().train;
  request.records_val = own.records().val;
  request.data_hash = own.records().hash;
  request.lacks_index = own.lacks_index();
  if (connection.request.formerly != 0) {
    request.want_rank = connection.request.rank;
    request.formerly = connection.request.formerly;
    request.is_launched = false;  // the launcher may start another worker with this rank, and would report its end
  }
  bool has_rank = false;
  const auto prepare = [&] {
    has_rank = true;
    return own.prepare(process, connection);
  };
  DT_TRY(joined.reply, connection.control->join(request, prepare), "joining the job");
  DT_TRY(joined.spec, job::parse_job_spec(joined.reply.job_text), "reading the job's description");
  joined.spec.flags.network.file = process.flags.job.network.file;
  joined.plan = job::plan_of(joined.spec);
  DT_TRY_VOID(adopt_spec(process.flags, joined.spec, process.run_dir.path(), process.resumed));
  if (!has_rank) DT_TRY_VOID(process.take_rank(joined.reply.rank));
  const bool starts = !process.flags.launch.joins;
  if (joined.spec.label_list && starts) DT_TRY_VOID(compare_label_lists(process.flags, *connection.control));
  process.flags = job_flags(process, joined.spec);
  set_host_roles(host_share(joined.reply, rpc::Role::kWorker), process.flags.launch);
  process.log.info("start with arguments {}", job::describe(process.flags));
  joined.data = own.take();
  // Synthetic data are drawn from the job's seed and the rank, which are known only now.
  if (joined.spec.flags.augment.benchmark) {
    DT_TRY(joined.data, open_data(process.flags, joined.reply.rank, process.log));
  }
  return joined;
}

}  // namespace

namespace {

// What a worker does with one seat: joins the job, runs `work`, and reports the outcome.
Result<int> hold_seat(Process& process, const job::Flags& flags, rpc::OwnSeat& seat, const WorkInJob& work) {
  const Signals& signals = process.signals;
  Connection connection;
  connection.request = seat.ask(connection.incarnation);
  DT_TRY(connection.security, security_of(flags.launch));
  DT_TRY(rpc::ControlOptions options, control_options(flags, connection.security, connection.incarnation));
  options.seat = &seat;
  options.registry = process.registry.get();
  if (flags.wire.inject.counts_messages()) options.fail_points = process.fail_points;
  DT_TRY_VOID(job::check_token_to_join(connection.security.token, flags.launch.insecure, flags.launch.scheduler));
  options.tracer = process.tracer.get();
  connection.control = rpc::ControlClient::create(std::move(options), connection.waits, process.log);
  connection.control->on_failure([&](const Error& error) { connection.failure.fail(error); });
  Result<int> code = job::kExitInternal;
  {
    const SignalWatcher watcher(
        signals, connection.waits, process.log,
        [&] {
          const bool leaves = flags.launch.joins || (flags.wire.drain && signals.terminated);
          leaves ? connection.control->request_leave() : connection.control->request_stop();
        },
        [&] { connection.control->request_trace(steps_to_trace(process.flags)); });
    const Result<> ended = catching([&]() -> Result<> {
      DT_TRY(const JoinedJob joined, join(process, connection));
      DT_TRY(const std::unique_ptr<Observer> observer, Observer::of_process(process, [&] {
               return observe::JobState{
                   .processes = {own_state(*process.registry, connection.waits, "worker", joined.reply.rank)}};
             }));
      code = work(process, connection, joined);
      return {};
    });
    if (!ended) code = tl::unexpected(ended.error());
  }
  Result<> outcome;
  if (!code) outcome = tl::unexpected(code.error());
  if (code && *code == job::kExitPreempted) outcome = fail(Code::kPreempted, "stopped as asked");
  seat.end();
  connection.control->done(outcome);
  return code;
}

// A connection may be back when the worker tries once more. The scheduler limits how often it does.
bool may_pass(const Error& error) {
  return error.code == Code::kStartup || error.code == Code::kPeerLost || error.code == Code::kUnavailable;
}

}  // namespace

Result<int> run_in_job(const job::Flags& flags, const Signals& signals, const WorkInJob& work) {
  DT_TRY(Process process, Process::open(flags, signals, "worker"));
  const int64_t servers = flags.job.num_servers;
  const int64_t connections = servers > 0 ? job::kConnectionsPerServer * servers : flags.job.num_workers;
  DT_TRY_VOID(job::check_open_files(job::descriptors_for(connections), "a worker"));
  DT_TRY_VOID(complete_flags(process.flags));
  const job::Flags own_flags = process.flags;  // without those that come with the job
  rpc::OwnSeat seat;
  for (bool is_lost = false;; is_lost = true) {
    Result<int> code = hold_seat(process, flags, seat, work);
    if (code || code.error().code == Code::kPreempted) return code;
    if (is_lost && may_pass(code.error())) seat.give_up();
    if (seat.is_lost() && may_pass(code.error())) {
      process.log.warn("{}; this process joins the job again", code.error().message);
      process.flags = own_flags;
      process.flags.launch.joins = true;
      continue;
    }
    if (!is_lost || seat.state() == rpc::OwnSeat::State::kEnded) return code;
    return fail(Code::kPeerLost, "this worker counts as lost, and cannot join the job again: {}", code.error().message);
  }
}

}  // namespace dtrain::role
