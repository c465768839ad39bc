#include "role/joining.h"

#include <utility>

#include "job/data_set.h"
#include "job/exit_code.h"
#include "role/addresses.h"
#include "role/membership.h"
#include "role/setup.h"
#include "role/signal_watcher.h"

namespace dtrain::role {

void FailureRelay::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = error;
  pass_on();
  failed_.notify_all();
}

std::optional<Error> FailureRelay::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  failed_.wait_for(lock, limit, [this] { return error_.has_value(); });
  return error_;
}

void FailureRelay::listen(std::function<void(const Error&)> end) {
  const std::lock_guard lock(mutex_);
  end_ = std::move(end);
  pass_on();
}

void FailureRelay::pass_on() {
  if (error_ && end_) std::exchange(end_, nullptr)(*error_);
}

namespace {

// The job's flags are the JobSpec's; what belongs to the process stays its own.
job::Flags job_flags(const Process& process, const job::JobSpec& spec) {
  job::Flags flags = process.flags;
  flags.job = spec.flags;
  return flags;
}

Result<JoinedJob> join(Process& process, rpc::ControlClient& control) {
  JoinedJob joined;
  DT_TRY(joined.data, open_data(process.flags, 0, process.log), "opening the data");
  rpc::JoinRequest request = join_request(process.flags, rpc::Role::kWorker);
  DT_TRY(request.address, own_host(process.flags.launch));
  request.records_train = static_cast<uint64_t>(joined.data.train->size());
  request.records_val = joined.data.validation == nullptr ? 0 : static_cast<uint64_t>(joined.data.validation->size());
  DT_TRY(joined.reply, control.join(request), "joining the job");
  DT_TRY(joined.spec, job::parse_job_spec(joined.reply.job_text), "reading the job's description");
  DT_TRY_VOID(adopt_spec(process.flags, joined.spec, process.run_dir.path(), process.resumed));
  DT_TRY_VOID(process.take_rank(joined.reply.rank));
  process.flags = job_flags(process, joined.spec);
  process.log.info("start with arguments {}", job::describe(process.flags));
  if (joined.spec.flags.augment.benchmark) {  // drawn from the job's seed and the rank, which are known only now
    DT_TRY(joined.data, open_data(process.flags, joined.reply.rank, process.log));
  }
  return joined;
}

}  // namespace

Result<int> run_in_job(const job::Flags& flags, const Signals& signals, const WorkInJob& work) {
  DT_TRY(Process process, Process::open(flags, signals, "worker"));
  DT_TRY_VOID(job::apply_own_data_set(process.flags, data::recognise_data_set));
  Connection connection;
  DT_TRY(connection.security, security_of(flags.launch));
  DT_TRY(rpc::ControlOptions options, control_options(flags, connection.security, connection.incarnation));
  connection.control = rpc::ControlClient::create(std::move(options), connection.waits, process.log);
  connection.control->on_failure([&](const Error& error) { connection.failure.fail(error); });
  Result<int> code = job::kExitInternal;
  {
    const SignalWatcher watcher(signals, connection.waits, process.log, [&] { connection.control->request_stop(); });
    const Result<> ended = catching([&]() -> Result<> {
      DT_TRY(const JoinedJob joined, join(process, *connection.control));
      code = work(process, connection, joined);
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
