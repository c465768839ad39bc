#include "dry_run.h"

#include "exec/executor.h"
#include "job/data_set.h"
#include "job/job_spec.h"
#include "role/devices.h"
#include "role/setup.h"
#include "role/stores.h"
#include "role/training.h"

namespace dtrain::cmd {

namespace {

std::string mebibytes(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

uint64_t parameter_bytes(const ParameterView& view) {
  uint64_t elements = 0;
  for (const ParameterSpan& parameter : view.parameters) elements += parameter.weight.size();
  return elements * sizeof(float);
}

struct WorkerMemory {
  uint64_t weights = 0;  // of one device
  uint64_t compute = 0;  // of all devices: activations and workspace
};

Result<WorkerMemory> worker_memory(const job::Flags& flags, const role::Devices& devices) {
  DT_TRY(const role::Network network, role::build_network(flags.job));
  DT_TRY(const std::vector<int64_t> batches, role::device_batches(flags));
  exec::Options options = role::executor_options(flags, exec::Options::Purpose::kTraining);
  WorkerMemory memory;
  for (size_t device = 0; device < batches.size(); device++) {
    options.batch_size = batches[device];
    DT_TRY(const std::unique_ptr<exec::Executor> executor, devices.backend(device).compile(network.graph, options));
    memory.weights = parameter_bytes(executor->parameters());
    memory.compute += executor->memory_bytes();
  }
  return memory;
}

// A worker holds weights, gradients and what the executors need besides; optimiser state lies where the update runs.
// Images are counted as numbers: GPUs that are given pixels need a little less.
Result<std::string> memory_text(const job::Flags& flags) {
  const Result<role::Devices> opened = role::Devices::open(flags, Log::silent());
  if (!opened) return fmt::format("memory of a worker: not known here: {}\n", opened.error().message);
  DT_TRY(const WorkerMemory memory, worker_memory(flags, *opened));
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(role::optimizer_spec(flags.job)));
  const size_t devices = role::device_count(flags);
  const uint64_t weights = memory.weights;
  const uint64_t state = weights * slots.size();
  std::string text = fmt::format("memory of a worker{}: weights {}, gradients {}, activations and workspace {}",
                                 devices > 1 ? fmt::format(" with {} devices", devices) : "",
                                 mebibytes(weights * devices), mebibytes(weights * devices), mebibytes(memory.compute));
  if (flags.job.num_servers == 0) {
    const bool replicates =
        role::update_place(job::store_of(flags.job), flags.job.num_workers) == kvstore::UpdateAt::kReplicas;
    const size_t copies = replicates ? devices : 1;
    return text + fmt::format(", optimiser {}\n", mebibytes(state * copies));
  }
  return text + fmt::format("\nmemory of {} servers together: weights {}, sums {}, optimiser {}\n",
                            flags.job.num_servers, mebibytes(weights), mebibytes(weights), mebibytes(state));
}

}  // namespace

Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table) {
  DT_TRY_VOID(job::apply_own_data_set(flags));
  DT_TRY(const std::string memory, memory_text(flags));
  return fmt::format("{}\n{}{}{}weights are updated {}\n", job::text(job::requested(flags)), process_table,
                     process_table.empty() ? "" : "\n", memory, role::update_text(flags));
}

}  // namespace dtrain::cmd
