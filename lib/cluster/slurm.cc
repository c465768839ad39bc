#include "cluster/slurm.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>

#include "cluster/ask.h"
#include "job/flags/value.h"

namespace dtrain::cluster {
namespace {

constexpr const char* kSlurmMissing = "Slurm's commands must be installed (Debian: slurm-client)";

// The command line of srun. It starts one agent on each node, which may use all resources that the job has there, even
// while other steps of the job run: the shell from which dtrain is called can be such a step.
std::vector<std::string> srun(const launch::AgentCommand& agents) {
  std::vector<std::string> words = {"srun", "--overlap", "--mem=0", "--mpi=none", "--export=ALL", "--wait=0"};
  const std::string count = std::to_string(agents.hosts.size());
  words.insert(words.end(), {"--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1"});
  words.push_back(fmt::format("--nodelist={}", fmt::join(agents.hosts, ",")));
  if (!agents.directory.empty()) words.push_back("--chdir=" + agents.directory);
  words.insert(words.end(), agents.arguments.begin(), agents.arguments.end());
  return words;
}

}  // namespace

Result<SlurmAllocation> slurm_allocation(const job::Environment& environment) {
  const std::optional<std::string> job = environment("SLURM_JOB_ID"), nodes = environment("SLURM_JOB_NODELIST");
  if (!job || !nodes) {
    return fail(Code::kStartup,
                "this process does not run inside a Slurm allocation (SLURM_JOB_ID and SLURM_JOB_NODELIST are not "
                "set): start dtrain with 'salloc -N NODES', or in a script submitted with sbatch");
  }
  SlurmAllocation allocation{.job = *job, .nodes = *nodes};
  int64_t tasks = 0;
  if (const auto text = environment("SLURM_NTASKS"); text && job::parse_value(*text, tasks)) allocation.tasks = tasks;
  return allocation;
}

Result<std::vector<std::string>> slurm_hosts(const SlurmAllocation& allocation, int64_t processes) {
  DT_TRY(std::vector<std::string> hosts,
         ask({.program = {.arguments = {"scontrol", "show", "hostnames", allocation.nodes}}, .missing = kSlurmMissing}),
         "asking Slurm for the nodes of job {}", allocation.job);
  if (hosts.empty()) return fail(Code::kStartup, "Slurm job {} has no node ({})", allocation.job, allocation.nodes);
  if (allocation.tasks && *allocation.tasks < processes) {
    return fail(Code::kStartup,
                "Slurm job {} was submitted with {} tasks, but this job has {} processes (servers and workers): "
                "request -n {} tasks, or only nodes (-N)",
                allocation.job, *allocation.tasks, processes, processes);
  }
  return hosts;
}

void share_gpus(const std::vector<int64_t>& gpus, const job::Environment& environment,
                job::HostAssignment& assignment) {
  int64_t on_node = 0;
  if (gpus.empty() || !job::parse_value(environment("SLURM_GPUS_ON_NODE").value_or(""), on_node)) return;
  const int64_t each = std::ssize(gpus), most = *std::max_element(gpus.begin(), gpus.end());
  // If the numbers are not 0 .. each - 1, the user has chosen specific GPUs of the node.
  if (most >= each) return;
  std::map<std::string, std::vector<job::ProcessSlot*>> workers;
  for (job::ProcessSlot& slot : assignment.workers) workers[slot.host].push_back(&slot);
  for (auto& [node, slots] : workers) {
    if (slots.size() < 2 || std::ssize(slots) * each > on_node) continue;
    int64_t next = 0;
    for (job::ProcessSlot* slot : slots) {
      for (int64_t i = 0; i < each; i++) slot->gpus.numbers.push_back(next++);
    }
  }
}

bool binds_tasks(const std::vector<std::string>& configuration) {
  return std::any_of(configuration.begin(), configuration.end(), [](const std::string& line) {
    // Slurm 24.11 prints "(null)" if there is no plugin.
    return line.starts_with("TaskPlugin ") && line.find("task/none") == std::string::npos &&
           line.find("(null)") == std::string::npos;
  });
}

Result<launch::AgentStarter> slurm_starter() {
  DT_TRY(const std::vector<std::string> configuration,
         ask({.program = {.arguments = {"scontrol", "show", "config"}}, .missing = kSlurmMissing}),
         "asking Slurm for its configuration (slurmctld and munged must be running)");
  return slurm_starter(binds_tasks(configuration));
}

launch::AgentStarter slurm_starter(bool binds) {
  return {.tool = "srun", .allocation = {}, .command = [binds](const launch::AgentCommand& agents) {
            launch::Command command{.role = "srun", .arguments = srun(agents)};
            // The processes of an agent share all cores that the job has on the node. The variable is set only if Slurm
            // binds tasks, because otherwise srun would warn about it.
            if (binds) command.environment = {"SLURM_CPU_BIND=none"};
            return command;
          }};
}

}  // namespace dtrain::cluster
