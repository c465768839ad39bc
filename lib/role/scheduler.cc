#include "role/scheduler.h"

#include <cstdio>

#include "job/data_set.h"
#include "job/exit_code.h"
#include "kvstore/placement.h"
#include "role/addresses.h"
#include "role/process.h"
#include "role/report.h"
#include "role/setup.h"
#include "role/signal_watcher.h"
#include "rpc/scheduler.h"

namespace dtrain::role {
namespace {

constexpr std::chrono::seconds kProgressInterval{1};

void print_line(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

sync::membership::Settings membership_settings(const job::Flags& flags, const job::JobSpec& spec) {
  sync::membership::Settings settings;
  settings.workers = static_cast<uint32_t>(flags.job.num_workers);
  settings.servers = static_cast<uint32_t>(flags.job.num_servers);
  settings.job_text = job::text(spec);
  settings.start_timeout_ms = static_cast<uint64_t>(flags.wire.start_timeout.count());
  settings.heartbeat_timeout_ms = static_cast<uint64_t>(flags.wire.heartbeat_timeout.count());
  return settings;
}

// Where each slice of each parameter and statistic lives; nothing where there are no servers.
Result<std::string> placement_of(const job::JobFlags& flags) {
  if (flags.num_servers == 0) return std::string();
  DT_TRY(const Network network, build_network(flags));
  const auto rule = flags.scheme.placement == job::Placement::kHash ? kvstore::PlacementRule::kHash
                                                                    : kvstore::PlacementRule::kBalanced;
  return kvstore::to_text(kvstore::place(key_sizes(network.shapes), static_cast<uint32_t>(flags.num_servers), rule,
                                         static_cast<uint64_t>(flags.scheme.bigarray_bound)));
}

// Waits for the job's end and prints its progress meanwhile.
Result<> watch(rpc::Scheduler& scheduler, const job::JobSpec& spec) {
  while (true) {
    if (std::optional<Result<>> end = scheduler.wait(kProgressInterval)) return *end;
    std::vector<kvstore::Progress> workers;
    for (const rpc::MemberPulse& member : scheduler.pulses()) {
      if (member.member.role == rpc::Role::kWorker) workers.push_back(member.pulse.progress);
    }
    if (!workers.empty()) print_line(job::machine_line(job_progress(spec, workers)));
  }
}

}  // namespace

Result<int> run_scheduler(const job::Flags& flags, const Signals& signals) {
  DT_TRY(Process process, Process::open(flags, signals, "scheduler"));
  DT_TRY_VOID(process.take_rank(0));
  DT_TRY_VOID(job::apply_own_data_set(process.flags));
  process.flags.job.seed = choose_seed(process);
  process.log.info("start with arguments {}", job::describe(process.flags));
  DT_TRY(const rpc::Security security, security_of(process.flags.launch));
  DT_TRY(const rpc::Listen listen, scheduler_listen(process.flags.launch, security.token));

  job::JobSpec spec = job::requested(process.flags);
  rpc::SchedulerOptions options{.listen = listen,
                                .security = security,
                                .membership = membership_settings(process.flags, spec),
                                .finish_job = nullptr};
  options.finish_job = [&](const rpc::Joined& joined) -> Result<std::string> {
    DT_TRY_VOID(
        complete_spec(static_cast<int64_t>(joined.records_train), static_cast<int64_t>(joined.records_val), spec));
    DT_TRY(spec.placement, placement_of(spec.flags));
    DT_TRY_VOID(process.write_spec(spec));
    process.log.verbose(1, "table {}", spec.placement);
    return job::text(spec);
  };
  DT_TRY(const std::unique_ptr<rpc::Scheduler> scheduler, rpc::Scheduler::start(std::move(options), process.log));
  const std::string host = scheduler_host(process.flags.launch, listen);
  print_line("dtrain scheduler " + rpc::to_text({host, scheduler->port()}));
  Waits waits;
  const SignalWatcher watcher(signals, waits, process.log, [&] { scheduler->request_stop(); });
  DT_TRY_VOID(watch(*scheduler, spec));
  return job::kExitOk;
}

}  // namespace dtrain::role
