#include "role/process.h"

#include <random>

#include "base/file.h"

namespace dtrain::role {

Result<Process> Process::open(const job::Flags& flags, const Signals& signals, const std::string& name) {
  Process process(flags, signals, Log::to_stderr(name, static_cast<int>(flags.launch.verbose)), name);
  DT_TRY(process.resumed, find_resumed(flags));
  process.run_dir = choose_run_dir(flags, process.resumed);
  DT_TRY_VOID(make_directories(process.run_dir), "making the run directory");
  return process;
}

Result<> Process::take_rank(uint32_t rank) {
  log = log.named(name_ == "worker"   ? fmt::format("{}", rank)
                  : name_ == "server" ? fmt::format("server {}", rank)
                                      : name_);
  DT_TRY_VOID(log.add_file(fmt::format("{}/{}-{}.log", run_dir, name_, rank)));
  if (!flags.loop.log_file.empty()) DT_TRY_VOID(log.add_file(run_dir + "/" + flags.loop.log_file));
  return {};
}

Result<> Process::write_spec(const job::JobSpec& spec) const {
  return write_file_atomic(run_dir + "/" + job::kJobSpecFile, job::text(spec));
}

uint64_t choose_seed(const Process& process) {
  if (process.flags.job.seed) return *process.flags.job.seed;
  if (process.resumed && process.resumed->spec.flags.seed) return *process.resumed->spec.flags.seed;
  return std::random_device{}();
}

}  // namespace dtrain::role
