#include "job/flags/allocation.h"

#include <algorithm>
#include <set>

#include "base/words.h"
#include "job/flags/flags.h"
#include "job/flags/value.h"

namespace dtrain::job {
namespace {

// The value of an environment variable that a batch system sets, as an integer; 0 if it is not set or not an integer.
int64_t count_in(const Environment& environment, const char* name) {
  int64_t count = 0;
  const std::optional<std::string> text = environment(name);
  return text && parse_value(*text, count) ? count : 0;
}

// LSF lists each host with its slots: "node1 4 node2 4".
size_t hosts_of_lsf(const Environment& environment) {
  const std::string text = environment("LSB_MCPU_HOSTS").value_or("");
  std::set<std::string_view> hosts;
  for (const WordLine& line : word_lines(text)) {
    for (size_t i = 0; i < line.words.size(); i += 2) hosts.insert(line.words[i]);
  }
  return hosts.size();
}

// The number of processes that mpirun or srun has started, including this one.
int64_t count_siblings(const Environment& environment) {
  int64_t most = 1;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    most = std::max(most, count_in(environment, name));
  }
  return most;
}

}  // namespace

std::optional<Allocation> allocation_of(const Environment& environment) {
  const auto name = [&](const char* variable) { return environment(variable).value_or("?"); };
  if (count_in(environment, "SLURM_JOB_NUM_NODES") > 1) {
    return Allocation{"slurm", fmt::format("Slurm job {}, on {}", name("SLURM_JOB_ID"), name("SLURM_JOB_NODELIST"))};
  }
  if (hosts_of_lsf(environment) > 1) {
    return Allocation{"mpi", fmt::format("LSF job {}, on {} hosts", name("LSB_JOBID"), hosts_of_lsf(environment))};
  }
  if (environment("PE_HOSTFILE") && count_in(environment, "NHOSTS") > 1) {
    return Allocation{"mpi", fmt::format("SGE job {}, on {} hosts", name("JOB_ID"), name("NHOSTS"))};
  }
  if (count_in(environment, "PBS_NUM_NODES") > 1) {
    return Allocation{"mpi", fmt::format("Torque job {}, on {} hosts", name("PBS_JOBID"), name("PBS_NUM_NODES"))};
  }
  return std::nullopt;
}

Result<std::string> take_allocation(const Environment& environment, Flags& flags) {
  LaunchFlags& launch = flags.launch;
  if (launch.role != Role::kNone || !flags.given("num-workers")) return std::string();
  if (const int64_t siblings = count_siblings(environment); siblings > 1) {
    return fail(Code::kUsage,
                "mpirun or srun has started this command {} times, and each copy would start the whole job: run dtrain "
                "without mpirun and srun; with --launcher {}, it starts its processes itself",
                siblings, environment("SLURM_STEP_NUM_TASKS") ? "slurm" : "mpi");
  }
  if (flags.given("launcher") || !launch.hostfile.empty()) return std::string();
  const std::optional<Allocation> allocation = allocation_of(environment);
  if (!allocation) return std::string();
  launch.launcher = allocation->launcher;
  flags.sources["launcher"] = Source::kEnvironment;
  return fmt::format(
      "dtrain runs in {}: --launcher {} starts the processes on its hosts (--launcher local starts them on this host)",
      allocation->text, allocation->launcher);
}

}  // namespace dtrain::job
