#include "role/process/process.h"

#include <filesystem>
#include <random>

#include "job/process/people.h"

namespace dtrain::role {

Result<Process> Process::open(const job::Flags& flags, const Signals& signals, const std::string& name) {
  DT_TRY(ResumeSearch search, find_resumed(flags));
  const bool is_alone = flags.launch.role == job::Role::kNone;
  DT_TRY(RunDir run_dir, is_alone ? RunDir::claim(flags, search.run) : RunDir::share(flags, search.run));
  Process process(flags, signals, Log::to_stderr(name, static_cast<int>(flags.launch.verbose), flags.launch.terminal),
                  std::move(search.run), std::move(run_dir), name);
  if (job::is_screen_for_people(flags.given("log-format"))) process.log.show_people(job::fit_for_people);
  process.library_lines_ = std::make_unique<rpc::LibraryLines>(process.log);
  const int64_t steps = flags.launch.trace_steps;
  if (steps > 0 && flags.launch.returns == 0) process.tracer->request_at_start(static_cast<uint64_t>(steps));
  if (flags.launch.rank) process.fail_points->arm(own_faults(flags, static_cast<uint32_t>(*flags.launch.rank)).points);
  return process;
}

Result<> Process::take_rank(uint32_t rank) {
  if (rank_ == rank) return {};
  log = log.named(name_ == "worker"   ? fmt::format("{}", rank)
                  : name_ == "server" ? fmt::format("server {}", rank)
                                      : name_);
  DT_TRY_VOID(run_dir.open_log(log, fmt::format("{}-{}.log", name_, rank)));
  if (!rank_ && !flags.loop.log_file.empty())
    DT_TRY_VOID(log.add_file(std::filesystem::path(run_dir.path()) / flags.loop.log_file));
  tracer->set_place(name_, rank, run_dir.path(), log);
  if (!flags.launch.rank && !rank_) fail_points->arm(own_faults(flags, rank).points);
  rank_ = rank;
  return {};
}

uint64_t choose_seed(const Process& process) {
  if (process.flags.job.seed) return *process.flags.job.seed;
  if (process.resumed && process.resumed->spec.flags.seed) return *process.resumed->spec.flags.seed;
  return std::random_device{}();
}

job::Faults own_faults(const job::Flags& flags, uint32_t rank) {
  const job::Role role = flags.launch.role == job::Role::kNone ? job::Role::kWorker : flags.launch.role;
  job::Faults faults = flags.wire.inject.of({role, rank});
  if (flags.launch.joins && flags.launch.has_launcher) faults.points.clear();
  if (flags.launch.returns > 0) faults.points.clear();
  return faults;
}

}  // namespace dtrain::role
