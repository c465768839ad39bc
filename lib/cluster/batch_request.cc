#include "cluster/batch_request.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <numeric>

#include "job/flags/flags.h"
#include "job/resolve/network_file.h"
#include "launch/job.h"

namespace dtrain::cluster {
namespace {

// `given`, or `otherwise` if it is not given (0). A process that has no number of its own takes one core, and as much
// memory as the processes of the other role.
int64_t or_else(int64_t given, int64_t otherwise) {
  return given > 0 ? given : otherwise;
}

struct Load {
  int64_t servers = 0, workers = 0;
};

// The processes that run on each node.
std::map<std::string, Load> loads_of(const job::HostAssignment& assignment) {
  std::map<std::string, Load> loads;
  for (const job::ProcessSlot& slot : assignment.servers) loads[slot.host].servers++;
  for (const job::ProcessSlot& slot : assignment.workers) loads[slot.host].workers++;
  return loads;
}

// The resources of a node. All nodes are requested with the resources that the fullest one needs.
NodeRequest node_request(const job::Flags& flags, const job::HostAssignment& assignment) {
  const job::BatchFlags& batch = flags.batch;
  const bool cores = batch.worker_cores > 0 || batch.server_cores > 0;
  NodeRequest most;
  for (const auto& [node, load] : loads_of(assignment)) {
    const int64_t core_count =
        load.workers * or_else(batch.worker_cores, 1) + load.servers * or_else(batch.server_cores, 1);
    const int64_t bytes = load.workers * or_else(batch.worker_memory, batch.server_memory) +
                          load.servers * or_else(batch.server_memory, batch.worker_memory);
    if (cores) most.cores = std::max(most.cores, core_count);
    most.memory = std::max(most.memory, bytes);
    most.gpus = std::max(most.gpus, load.workers * std::ssize(flags.device.gpus.numbers));
  }
  return most;
}

Result<> check_gpus(const std::vector<int64_t>& gpus) {
  std::vector<int64_t> first(gpus.size());
  std::iota(first.begin(), first.end(), 0);
  std::vector<int64_t> sorted = gpus;
  std::sort(sorted.begin(), sorted.end());
  if (sorted == first) return {};
  return fail(Code::kUsage,
              "--gpus {}: in a batch job, the GPUs that the batch system assigns are numbered from 0: for {} GPUs per "
              "worker, give --gpus {}",
              fmt::join(gpus, ","), gpus.size(), fmt::join(first, ","));
}

// How long before its time limit the job is told to stop: it must have time to finish its steps and write a checkpoint,
// but should train most of the time.
std::chrono::seconds stop_time_of(const job::Flags& flags) {
  using std::chrono::seconds;
  const seconds wanted =
      std::max(launch::kStopTime, std::chrono::ceil<seconds>(std::chrono::milliseconds(flags.launch.stop_timeout)));
  const auto limit = std::chrono::floor<seconds>(flags.batch.time_limit);
  return limit.count() == 0 ? wanted : std::min(wanted, std::max(seconds(1), limit / 4));
}

// Flags of the launcher that apply only when the job starts for the first time.
std::vector<std::string> first_flags(const job::Flags& flags) {
  std::vector<std::string> words;
  const job::LoopFlags& loop = flags.loop;
  if (!loop.resume.empty()) words.insert(words.end(), {"--resume", loop.resume});
  const std::optional<int64_t> epoch = loop.pretrained_epoch ? loop.pretrained_epoch : loop.load_epoch;
  if (epoch) words.insert(words.end(), {"--load-epoch", std::to_string(*epoch)});
  if (flags.launch.overwrite) words.emplace_back("--overwrite");
  return words;
}

std::string name_of(const job::Flags& flags, const std::string& network) {
  return flags.batch.job_name.empty() ? "dtrain-" + network : flags.batch.job_name;
}

}  // namespace

Result<> check_all_gpus(const job::Flags& flags, const char* system, bool gives_all) {
  if (flags.device.gpus.has_numbers() || gives_all) return {};
  return fail(Code::kUsage,
              "--gpus {}: {} gives a job only the GPUs that it requests, so their number must be known: give numbers, "
              "such as --gpus 0-3 for 4 GPUs",
              job::format_value(flags.device.gpus), system);
}

Result<> check_no_restarts(const job::Flags& flags, const char* system) {
  if (flags.launch.max_restarts == 0) return {};
  return fail(Code::kUsage,
              "--max-restarts: on {}, each node starts its own processes, so nothing starts a failed job again",
              system);
}

const std::vector<std::string>& batch_flags() {
  static const std::vector<std::string> names = {"nodes",         "queue",        "jobname",       "time-limit",
                                                 "worker-cores",  "server-cores", "worker-memory", "server-memory",
                                                 "submit-option", "image",        "volume"};
  return names;
}

int64_t nodes_of(const job::Flags& flags) {
  return or_else(flags.batch.nodes, std::max(flags.job.num_workers, flags.job.num_servers));
}

Result<job::HostAssignment> assign_to_unknown_nodes(const job::Flags& flags) {
  job::HostFile file{.name = "--nodes", .lines = {}};
  for (int64_t i = 1; i <= nodes_of(flags); i++) file.lines.push_back({.host = fmt::format("NODE{}", i), .number = i});
  job::AssignmentOptions options = job::assignment_options(flags);
  options.order = job::HostOrder::kSpread;
  return job::assign_hosts(file, options);
}

Result<BatchRequest> batch_request(const UserCommand& command, const CommandInside& inside) {
  const job::Flags& flags = command.flags;
  const int64_t processes = flags.job.num_servers + flags.job.num_workers;
  if (flags.batch.nodes > processes) {
    return fail(Code::kUsage,
                "--nodes {}: the job has only {} processes (servers and workers), so some nodes would be idle",
                flags.batch.nodes, processes);
  }
  if (!flags.launch.sync_dst_dir.empty()) {
    return fail(
        Code::kUsage,
        "--sync-dst-dir: the nodes of a batch job are not known yet: start dtrain in a directory that all nodes "
        "share");
  }
  DT_TRY_VOID(check_gpus(flags.device.gpus.numbers));
  DT_TRY(const job::HostAssignment assignment, assign_to_unknown_nodes(flags));
  BatchRequest request{.name = {}, .queue = flags.batch.queue, .nodes = nodes_of(flags)};
  request.network = job::network_label(flags.job.network.network);
  request.name = name_of(flags, request.network);
  request.node = node_request(flags, assignment);
  request.time_limit = std::chrono::ceil<std::chrono::seconds>(flags.batch.time_limit);
  request.stop_time = stop_time_of(flags);
  request.options = flags.batch.submit_options;
  request.directory = command.directory;
  request.run_dir = inside.run_dir;
  request.checkpoints = inside.checkpoints;
  request.command = {command.executable};
  const std::vector<std::string> kept = job::without_flags(
      command.arguments, {"dry-run", "launcher", "run-dir", "overwrite", "resume", "retrain", "load-epoch"});
  request.command.insert(request.command.end(), kept.begin(), kept.end());
  if (!inside.launcher.empty()) request.command.insert(request.command.end(), {"--launcher", inside.launcher});
  request.at_first = first_flags(flags);
  request.restarts_max = flags.launch.max_restarts;
  return request;
}

}  // namespace dtrain::cluster
