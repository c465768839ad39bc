#include "dry_run.h"

#include "exec/executor.h"
#include "job/data_set.h"
#include "job/job_spec.h"
#include "role/setup.h"
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

// A worker holds weights, gradients and what the executor needs besides; optimiser state lies where the update runs.
Result<std::string> memory_text(const job::Flags& flags) {
  DT_TRY(const role::Network network, role::build_network(flags.job));
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(role::optimizer_spec(flags.job)));
  const exec::Options options = role::executor_options(flags, exec::Options::Purpose::kTraining);
  DT_TRY(const std::unique_ptr<exec::Executor> executor, exec::make_cpu_backend()->compile(network.graph, options));
  const uint64_t weights = parameter_bytes(executor->parameters());
  const uint64_t state = weights * slots.size();
  std::string text = fmt::format("memory of a worker: weights {}, gradients {}, activations and workspace {}",
                                 mebibytes(weights), mebibytes(weights), mebibytes(executor->memory_bytes()));
  if (!flags.distributed()) return text + fmt::format(", optimiser {}\n", mebibytes(state));
  return text + fmt::format("\nmemory of {} servers together: weights {}, sums {}, optimiser {}\n",
                            flags.job.num_servers, mebibytes(weights), mebibytes(weights), mebibytes(state));
}

}  // namespace

Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table) {
  DT_TRY_VOID(job::apply_own_data_set(flags));
  DT_TRY(const std::string memory, memory_text(flags));
  return fmt::format("{}\n{}{}{}", job::text(job::requested(flags)), process_table, process_table.empty() ? "" : "\n",
                     memory);
}

}  // namespace dtrain::cmd
