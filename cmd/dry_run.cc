#include "dry_run.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/host_limits.h"
#include "base/words.h"
#include "job/flags/value.h"
#include "job/resolve/scheme.h"
#include "job/spec/groups.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "role/process/membership.h"
#include "role/setup/data.h"
#include "role/setup/device_loader.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/setup/shares.h"
#include "role/setup/update.h"
#include "role/worker/planned_memory.h"
#include "role/worker/stores.h"

namespace dtrain::cmd {

namespace {

uint64_t elements_of(const std::vector<graph::ParameterInfo>& arrays) {
  uint64_t elements = 0;
  for (const graph::ParameterInfo& array : arrays) elements += static_cast<uint64_t>(element_count(array.shape));
  return elements;
}

// The memory of the first GPU of a worker, computed on a host that cannot use GPUs.
Result<std::string> memory_of_gpu(const job::Flags& flags) {
  DT_TRY(const std::shared_ptr<exec::DeviceModule> module, role::load_device_module());
  DT_TRY(const role::Network network, role::build_network(flags.job));
  DT_TRY(const std::vector<int64_t> batches, role::device_batches(flags));
  exec::Options options = role::executor_options(flags, exec::Options::Purpose::kTraining);
  options.batch_size = batches.front();
  DT_TRY(const exec::DeviceModule::PlannedBytes plan, module->planned_bytes(network.graph, options));
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(role::optimizer_spec(flags.job)));
  const double state = 4.0 * static_cast<double>(elements_of(network.shapes.parameters) * slots.size());
  const auto batch = static_cast<double>(plan.batch);
  const bool updates = options.parameters_on_device;
  return fmt::format(
      "memory of a GPU with {} images: weights, gradients and statistics {}{}, activations and images {} ({} for each "
      "image); to these comes the workspace of convolutions, at most 256 MiB\n",
      options.batch_size, bytes_text(static_cast<double>(plan.parameters)),
      updates && state > 0 ? ", optimizer " + bytes_text(state) : "", bytes_text(batch),
      bytes_text(batch / static_cast<double>(options.batch_size)));
}

// Finds the numbers of --gpus all in the first worker, if it would run on this host. Code::kDevice: they are not known.
Result<> find_worker_gpus(job::Flags& flags) {
  job::GpuList& gpus = flags.device.gpus;
  if (gpus.has_numbers()) return {};
  if (flags.launch.on_other_hosts()) return fail(Code::kDevice, "it does not know the GPUs of the other hosts");
  const bool is_launcher = flags.launch.role == job::Role::kNone;
  if (gpus.is_all() && is_launcher) gpus = job::part_of(gpus, 0, flags.job.num_workers);
  return role::find_gpus(flags.device);
}

// What --gpus all means on this host; empty if it is not given or not known.
std::string gpus_text(const job::GpuList& gpus) {
  if (gpus.parts == 0 || !gpus.has_numbers()) return "";
  return fmt::format("--gpus {} on this host: {}\n", job::format_value(gpus), job::format_value(gpus.numbers));
}

// The memory that the processes need, and a warning if less is free.
Result<std::string> memory_text(job::Flags& flags) {
  const Result<> found = find_worker_gpus(flags);
  if (!found && found.error().code != Code::kDevice) return tl::unexpected(found.error());
  if (!found) return fmt::format("memory of a worker: cannot be computed on this host: {}\n", found.error().message);
  const Result<role::Devices> opened = role::Devices::open(flags, Log::silent());
  if (!opened) {
    const Result<std::string> planned = memory_of_gpu(flags);
    if (planned) return fmt::format("this host cannot use --gpus: {}\n{}", opened.error().message, *planned);
    return fmt::format("memory of a worker: cannot be computed on this host: {}\n", opened.error().message);
  }
  DT_TRY(const role::Network network, role::build_network(flags.job));
  const role::MemoryQuestion question{
      .flags = flags, .network = network, .validates = !flags.job.augment.benchmark, .host = role::started_here(flags)};
  DT_TRY(const std::string warning, role::judge_memory(question, usable_memory()));
  DT_TRY(const role::PlannedMemory plan, role::plan_memory(question, flags.job.batch_size));
  const size_t devices = role::device_count(flags);
  std::string text = fmt::format(
      "memory of a worker{}: weights {}, gradients {}, activations and workspace {}, images read ahead {}{}\n",
      devices > 1 ? fmt::format(" with {} devices", devices) : "", bytes_text(plan.weights), bytes_text(plan.gradients),
      bytes_text(plan.activations), bytes_text(plan.batches),
      plan.optimizer > 0 ? ", optimizer " + bytes_text(plan.optimizer) : "");
  const int64_t servers = flags.job.num_servers;
  if (servers > 0) {
    text +=
        fmt::format("memory of {}: weights, sums and optimizer {}\n",
                    servers == 1 ? "1 server" : fmt::format("each of {} servers", servers), bytes_text(plan.server));
  }
  return warning.empty() ? text : fmt::format("{}warning: {}\n", text, warning);
}

Result<std::string> network_text(const job::JobFlags& job) {
  DT_TRY(const role::Network network, role::build_network(job));
  const job::NetworkFlags& asked = job.network;
  const auto& [parameters, statistics] = std::tie(network.shapes.parameters, network.shapes.statistics);
  return fmt::format("network: {}{}, {} classes, images {}: {} parameters in {} arrays, {} statistics in {}\n",
                     asked.network, asked.num_layers > 0 ? fmt::format(" with {} layers", asked.num_layers) : "",
                     asked.num_classes, job::format_value(asked.image_shape), elements_of(parameters),
                     parameters.size(), elements_of(statistics), statistics.size());
}

// The rate of the first update of an epoch. If the rate changes at the end of an epoch, the last update of that epoch
// still has the old rate.
double rate_of(const optim::ScheduleSpec& schedule, int64_t epoch) {
  constexpr double kFirstUpdate = 1e-6;  // how far, in epochs, the first update lies beyond the beginning of its epoch
  return optim::learning_rate(schedule, static_cast<double>(epoch) + kFirstUpdate);
}

// The first epoch after `epoch` and before `end` whose rate differs from that of `epoch`; `end` if there is none.
// During the warm-up, every epoch has a different rate. After it, rates never rise, so a binary search is possible.
int64_t next_change(const optim::ScheduleSpec& schedule, int64_t epoch, int64_t end) {
  if (static_cast<double>(epoch) < optim::rising_epochs(schedule)) return std::min(epoch + 1, end);
  const double rate = rate_of(schedule, epoch);
  while (end - epoch > 1) {
    const int64_t middle = epoch + (end - epoch) / 2;
    (rate_of(schedule, middle) == rate ? epoch : end) = middle;
  }
  return end;
}

// The first of the epochs at the end that have the same rate as the last epoch.
int64_t last_change(const optim::ScheduleSpec& schedule, int64_t epochs) {
  const double rate = rate_of(schedule, epochs - 1);
  const auto warm = static_cast<int64_t>(std::ceil(optim::rising_epochs(schedule)));
  int64_t before = std::min(warm, epochs) - 1, from = epochs - 1;
  while (from - before > 1) {
    const int64_t middle = before + (from - before) / 2;
    (rate_of(schedule, middle) == rate ? from : before) = middle;
  }
  return from;
}

// The learning rates and the epochs at which they begin: the first few changes and the last one.
std::string rate_text(const job::JobFlags& job) {
  constexpr int kShown = 4;
  const optim::ScheduleSpec schedule = role::schedule_spec(job);
  const int64_t last = last_change(schedule, job.num_epochs);
  std::string text = fmt::format("learning rate by epoch: {:.6g}", rate_of(schedule, 0));
  int64_t epoch = 0;
  for (int i = 1; i < kShown && epoch < last; i++) {
    epoch = next_change(schedule, epoch, job.num_epochs);
    text += fmt::format(", {:.6g} from {}", rate_of(schedule, epoch), epoch);
  }
  if (epoch < last) {
    if (next_change(schedule, epoch, job.num_epochs) < last) text += ", ...";
    text += fmt::format(", {:.6g} from {}", rate_of(schedule, last), last);
  }
  return fmt::format("{}; {} epoch{}\n", text, job.num_epochs, job.num_epochs == 1 ? "" : "s");
}

std::string scheme_text(const job::JobFlags& job) {
  const job::SchemeFlags& scheme = job.scheme;
  switch (job::store_of(job).scheme) {
    case job::Scheme::kBsp: break;
    case job::Scheme::kAsp: return "ASP, no worker waits for another";
    case job::Scheme::kSsp:
      return fmt::format("SSP, no worker is more than {} steps ahead of the slowest", scheme.staleness);
    case job::Scheme::kGsp:
      return fmt::format(
          "GSP, each worker waits for its group; weight {}, groups {}", job::format_value(scheme.gsp_weight),
          scheme.group_staleness ? fmt::format("at most {} rounds ahead of the slowest", *scheme.group_staleness)
                                 : "do not wait for each other");
  }
  return scheme.backup > 0 ? fmt::format("BSP, a round waits for all workers except the last {}", scheme.backup)
                           : "BSP, all workers wait for each other";
}

Result<std::string> groups_text(const job::Flags& flags, std::vector<std::string>& missing) {
  const bool gsp = job::store_of(flags.job).scheme == job::Scheme::kGsp;
  const Result<std::optional<job::GroupsFile>> read = role::read_groups(flags);
  if (!read && gsp && !std::filesystem::exists(flags.launch.groups_file)) {
    missing.push_back(read.error().message);
    return std::string();
  }
  DT_TRY(const std::optional<job::GroupsFile> file, read);
  if (!file) return std::string();
  // If the host file does not exist, the hosts of the workers are not known either.
  const bool has_hosts = flags.launch.hostfile.empty() || std::filesystem::exists(flags.launch.hostfile);
  const Result<std::optional<std::vector<job::WorkerPlace>>> found =
      has_hosts ? role::places_to_be(flags) : std::optional<std::vector<job::WorkerPlace>>();
  DT_TRY(const auto places, found);
  const std::string later = fmt::format("groups: read from the file '{}' when the workers have joined", file->name);
  if (!places) return later + "\n";
  const Result<std::vector<int64_t>> parsed = job::parse_groups(*file, *places, flags.job.scheme.ungrouped);
  // If processes run on other hosts, the groups file may contain addresses that are not known yet, so an error is not
  // final.
  if (!parsed && flags.launch.on_other_hosts()) return fmt::format("{} (so far: {})\n", later, parsed.error().message);
  DT_TRY(const std::vector<int64_t> groups, parsed);
  DT_TRY_VOID(job::check_groups(flags.job, groups));
  std::map<int64_t, std::vector<std::string>> members;
  for (size_t rank = 0; rank < groups.size(); rank++) {
    members[groups[rank]].push_back(fmt::format("{} ({})", rank, (*places)[rank].host));
  }
  std::string text;
  for (const auto& [group, workers] : members) {
    text += fmt::format("group {}: workers {}\n", group, fmt::join(workers, ", "));
  }
  return text;
}

Result<std::string> shares_text(const job::Flags& flags, std::vector<std::string>& missing) {
  const Result<std::vector<data::Fraction>> read = role::read_sharding(flags);
  if (!read && !std::filesystem::exists(flags.launch.data_sharding_file)) {
    missing.push_back(read.error().message + "; `dtrain plan` writes this file");
    return std::string();
  }
  DT_TRY(const std::vector<data::Fraction> fractions, read);
  const int64_t every = flags.job.scheme.resplit_every;
  const std::string rotate = every > 0 ? fmt::format("shares move on to the next rank every {} epochs\n", every) : "";
  if (fractions.empty())
    return fmt::format("shares: each worker 1/{} of the records\n", flags.job.num_workers) + rotate;
  std::string text;
  for (size_t rank = 0; rank < fractions.size(); rank++) {
    text += fmt::format("share of worker {}: {} to {} of the data\n", rank, fractions[rank].begin.value(),
                        fractions[rank].end.value());
  }
  return text + rotate;
}

// The scheme, the groups and the shares of a job; empty if the job has only one process.
Result<std::string> job_text(const job::Flags& flags, std::vector<std::string>& missing) {
  if (!flags.distributed()) return std::string();
  DT_TRY(const std::string groups, groups_text(flags, missing));
  DT_TRY(const std::string shares, shares_text(flags, missing));
  const std::string hint = job::learning_rate_hint(flags.job);
  return fmt::format("scheme: {}\n{}{}{}{}\n", scheme_text(flags.job), groups, shares, hint, hint.empty() ? "" : "\n");
}

}  // namespace

Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table, std::vector<std::string> missing) {
  DT_TRY_VOID(role::complete_flags(flags));
  DT_TRY(const std::string network, network_text(flags.job));
  DT_TRY(const std::string memory, memory_text(flags));
  DT_TRY(const std::string job, job_text(flags, missing));
  std::string text;
  for (const std::string& one : missing) text += fmt::format("missing on this host: {}\n", one);
  return text + fmt::format("{}\n{}{}{}{}{}{}{}weights are updated {}\n", job::text(job::requested(flags)),
                            process_table, process_table.empty() ? "" : "\n", network, rate_text(flags.job), job,
                            gpus_text(flags.device.gpus), memory, role::update_text(flags));
}

}  // namespace dtrain::cmd
