#include "launch/local.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "job/token.h"
#include "launch/job_record.h"

namespace dtrain::launch {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

// What all commands of one job have in common; a value, for the job keeps it until the scheduler has said its address.
struct Common {
  std::vector<std::string> command;  // executable and the user's flags
  std::vector<std::string> environment;
  std::string host, run_dir;
  std::optional<job::Seating> hosts;
  bool loopback = true;  // all processes are on this host, and the user said nothing about addresses
  bool port_given = false;
};

Common common_of(const LocalSetting& setting) {
  Common common;
  common.command = {setting.executable};
  common.command.insert(common.command.end(), setting.arguments.begin(), setting.arguments.end());
  common.environment = {
      "DTRAIN_TOKEN=" + (setting.token.empty() ? job::make_token() : setting.token),
      fmt::format("DMLC_NUM_WORKER={}", setting.flags.job.num_workers),
      fmt::format("DMLC_NUM_SERVER={}", setting.flags.job.num_servers),
      "DMLC_JOB_CLUSTER=local",
  };
  common.host = setting.host;
  common.run_dir = setting.run_dir;
  common.hosts = setting.hosts;
  const job::LaunchFlags& launch = setting.flags.launch;
  common.loopback = launch.launcher == "local" && launch.advertise.empty() && launch.bind.empty();
  common.port_given = setting.flags.launch.port != 0;
  return common;
}

void append(std::vector<std::string>& list, std::initializer_list<std::string> more) {
  list.insert(list.end(), more);
}

// Where the host file puts a process; nothing: it does not say.
const job::Seat* seat_of(const Common& common, const std::string& role, int rank) {
  if (!common.hosts || role == "scheduler") return nullptr;
  const std::vector<job::Seat>& seats = role == "server" ? common.hosts->servers : common.hosts->workers;
  return &seats[static_cast<size_t>(rank)];
}

// `task`: its number among servers and workers, as dmlc's trackers count them.
Command command_for(const Common& common, const std::string& role, int rank, int task, const std::string& scheduler) {
  Command command{
      .role = role, .rank = rank, .host = common.host, .arguments = common.command, .environment = common.environment};
  append(command.arguments, {"--role", role, "--rank", std::to_string(rank), "--run-dir", common.run_dir});
  append(command.environment, {"DMLC_ROLE=" + role, fmt::format("DMLC_RANK={}", rank)});
  if (const job::Seat* seat = seat_of(common, role, rank)) {
    command.host = seat->host;
    if (!seat->gpus.empty()) append(command.arguments, {"--gpus", fmt::format("{}", fmt::join(seat->gpus, ","))});
  }
  if (common.loopback) append(command.arguments, {"--advertise", kLoopback});
  if (role == "scheduler") return command;
  // --port is the scheduler's own: the others of this host cannot have it too.
  append(command.arguments, {"--scheduler", scheduler});
  if (common.port_given) append(command.arguments, {"--port", "0"});
  const size_t colon = scheduler.rfind(':');
  append(command.environment, {"DMLC_PS_ROOT_URI=" + scheduler.substr(0, colon),
                               "DMLC_PS_ROOT_PORT=" + (colon == std::string::npos ? "" : scheduler.substr(colon + 1)),
                               fmt::format("DMLC_TASK_ID={}", task),
                               fmt::format("DMLC_{}_ID={}", role == "server" ? "SERVER" : "WORKER", rank)});
  return command;
}

// Servers before workers: a worker that finds its servers there waits less.
std::vector<Command> others(const Common& common, int workers, int servers, const std::string& scheduler) {
  std::vector<Command> commands;
  commands.reserve(static_cast<size_t>(workers) + static_cast<size_t>(servers));
  for (int i = 0; i < servers; i++) commands.push_back(command_for(common, "server", i, workers + i, scheduler));
  for (int i = 0; i < workers; i++) commands.push_back(command_for(common, "worker", i, i, scheduler));
  return commands;
}

// Detection within the timeout plus 2 s (R-F1); after the scheduler's death the others try again for its grace (R-F2).
Limits limits_of(const job::WireFlags& wire) {
  constexpr auto kDetection = std::chrono::seconds(2);
  constexpr auto kSlack = std::chrono::seconds(3);
  Limits limits;
  limits.start = wire.start_timeout;
  limits.settle = wire.heartbeat_timeout + kDetection + kSlack;
  limits.settle_scheduler = wire.heartbeat_timeout + wire.scheduler_grace + kDetection + kSlack;
  return limits;
}

// "lenet-20261121-101500" of "runs/lenet-20261121-101500", and the launcher's pid: two jobs may share a run directory's
// name.
std::string job_name(const std::string& run_dir) {
  const std::filesystem::path path(run_dir);
  const std::string name = path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  return fmt::format("{}-{}", name.empty() || name == "." || name == ".." ? "job" : name, ::getpid());
}

}  // namespace

LocalJob local_job(const LocalSetting& setting) {
  const Common common = common_of(setting);
  const int workers = static_cast<int>(setting.flags.job.num_workers);
  const int servers = static_cast<int>(setting.flags.job.num_servers);
  LocalJob job;
  job.name = job_name(setting.run_dir);
  job.scheduler = command_for(common, "scheduler", 0, 0, "");
  job.others = [=](const std::string& scheduler) { return others(common, workers, servers, scheduler); };
  job.limits = limits_of(setting.flags.wire);
  job.record_root = record_root(setting.runtime_directory);
  job.log_hint = "logs are in " + setting.run_dir;
  job.stopped_hint = fmt::format("stopped; '--resume {}' goes on from the last checkpoint", setting.run_dir);
  return job;
}

std::string dry_run_table(const LocalJob& job) {
  std::vector<Command> commands = {job.scheduler};
  for (Command& command : job.others("HOST:PORT")) commands.push_back(std::move(command));
  return process_table(commands);
}

Result<std::string> this_executable() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return fail(Code::kStartup, "cannot read /proc/self/exe: {}", std::strerror(errno));
  return std::string(path.data(), static_cast<size_t>(length));
}

std::string this_host() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  const std::string host = name.data();
  return host.substr(0, host.find('.'));
}

}  // namespace dtrain::launch
