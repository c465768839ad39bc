#include "role/setup/threads.h"

#include <algorithm>
#include <set>

#include "base/host_limits.h"
#include "job/flags/flags.h"
#include "telemetry/gpu_use.h"

namespace dtrain::role {

ThreadPlan plan_threads(const job::Flags& flags) {
  int64_t threads = flags.launch.threads;
  if (threads == 0) {
    const int64_t cores = usable_cores();
    // The processes of a job on one host share its cores. The scheduler is not counted, because it needs almost none.
    const int64_t roles = flags.launch.role == job::Role::kNone ? 1
                          : flags.launch.host_roles > 0         ? flags.launch.host_roles
                                                                : flags.job.num_workers + flags.job.num_servers;
    threads = std::max<int64_t>(1, cores / roles);
  }
  ThreadPlan plan;
  plan.compute = static_cast<int>(threads);
  // Processes without devices, such as servers, do not know how many GPUs --gpus all means to a worker.
  const int64_t devices = flags.device.gpus.has_numbers() ? flags.device.count() : 1;
  plan.device = std::max(1, plan.compute / static_cast<int>(devices));
  // A GPU needs one thread, which waits for it most of the time. CPU devices compute with all threads.
  const int64_t idle = flags.device.gpus.empty() ? threads / 2 : threads - devices;
  plan.decode = static_cast<int>(flags.data.data_threads > 0 ? flags.data.data_threads : std::max<int64_t>(1, idle));
  plan.decode_max = flags.data.data_threads_auto ? std::max(plan.decode, plan.compute) : plan.decode;
  return plan;
}

std::vector<int> decode_cpus(const std::vector<telemetry::UsedGpu>& gpus, const ThreadPlan& threads,
                             const std::string& devices) {
  std::set<int> cpus;
  for (const telemetry::UsedGpu& gpu : gpus) {
    const std::vector<int> near = cpus_near(gpu.pci_bus_id, devices);
    if (near.empty()) return {};
    cpus.insert(near.begin(), near.end());
  }
  if (cpus.size() < static_cast<size_t>(threads.decode_max)) return {};
  return {cpus.begin(), cpus.end()};
}

int shard_threads(const job::Flags& flags, int64_t reduce_threads) {
  return static_cast<int>(std::min<int64_t>(plan_threads(flags).compute, reduce_threads));
}

}  // namespace dtrain::role
