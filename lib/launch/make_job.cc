#include "launch/make_job.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "job/flags/environment.h"
#include "job/flags/flags.h"
#include "job/process/scheduler_lines.h"
#include "job/process/token.h"

namespace dtrain::launch {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

// What all commands of a job have in common. It is a value, because the job keeps it until the scheduler has reported
// its address.
struct Common {
  std::string executable, run_dir, host, token;
  std::vector<std::string> arguments;    // the user's arguments, without those that are only for the launcher
  std::vector<std::string> environment;  // variables of all processes, after those that the user gave
  Variables variables;
  std::optional<job::HostAssignment> assignment;
  job::GpuList gpus;                         // the value of --gpus
  int64_t workers_here = 0;                  // number of the job's workers if all of them run on this host; otherwise 0
  std::vector<job::SshAddress> other_hosts;  // other hosts; empty: all processes run on this one
  // Indexed by rank: the Command::host_number of each server and worker. Empty without other hosts.
  std::vector<size_t> host_of_server, host_of_worker;
  std::vector<size_t> host_of_spare;  // the Command::host_number of each spare host that the job may use while it runs
  std::vector<int64_t> processes_on;  // number of servers and workers on each host, indexed by Command::host_number
  std::string remote_executable;
  std::string address;   // address of the scheduler; empty: the scheduler determines it
  bool loopback = true;  // all processes are on this host, and the user gave no addresses
  std::optional<int> only_rank;
  bool port_given = false;
  std::string metrics_address;  // where servers and workers serve their own metrics; empty: they serve none
};

bool names_own_address(const job::Flags& flags) {
  const job::LaunchFlags& launch = flags.launch;
  // ps-lite's variables name interfaces for jobs on clusters; a job on this host ignores them.
  const bool interface = !launch.interfaces.empty() && flags.source("interface") > job::Source::kEnvironment;
  return interface || !launch.advertise.empty() || !launch.bind.empty();
}

// The address at which processes other than the scheduler serve their metrics: a free port of their host, because only
// the scheduler listens at the address of --metrics-addr. It is on loopback only if the scheduler's is.
std::string metrics_address_of_others(const std::string& scheduler) {
  if (scheduler.empty()) return "";
  const bool is_port = scheduler.find_first_not_of("0123456789") == std::string::npos;
  return is_port || job::is_loopback(scheduler) ? "127.0.0.1:0" : "0.0.0.0:0";
}

// Encodes the address in one text; different addresses give different texts.
std::string key_of(const job::SshAddress& address) {
  return fmt::format("{}@{} {}", address.user, address.host, address.port);
}

// Fills in the hosts and the processes that run on them.
void place_processes(const job::HostAssignment& assignment, Common& common) {
  common.other_hosts = distinct_hosts(assignment);
  std::map<std::string, size_t> numbers;
  for (const job::SshAddress& address : common.other_hosts) numbers.emplace(key_of(address), numbers.size() + 1);
  common.processes_on.resize(common.other_hosts.size() + 1);
  const auto place = [&](const std::vector<job::ProcessSlot>& slots) {
    std::vector<size_t> host_numbers;
    host_numbers.reserve(slots.size());
    for (const job::ProcessSlot& slot : slots) {
      host_numbers.push_back(numbers.at(key_of(slot.ssh)));
      common.processes_on[host_numbers.back()]++;
    }
    return host_numbers;
  };
  common.host_of_server = place(assignment.servers);
  common.host_of_worker = place(assignment.workers);
}

// Adds the spare hosts to the other hosts, so that they are ready when a worker has lost its host.
void add_spares(const job::HostAssignment& assignment, Common& common) {
  for (const job::ProcessSlot& spare : assignment.spares) {
    common.other_hosts.push_back(spare.ssh);
    common.host_of_spare.push_back(common.other_hosts.size());
  }
  common.processes_on.resize(common.other_hosts.size() + 1, 1);
}

// Whether a lost worker or server is replaced while the job continues.
bool replaces(const job::Flags& flags) {
  const job::SchemeFlags& scheme = flags.job.scheme;
  const bool waits = scheme.on_worker_loss == job::OnWorkerLoss::kWait || scheme.snapshot_every > 0;
  return waits && flags.launch.max_restarts > 0;
}

Common common_of(const JobSetting& setting) {
  const job::LaunchFlags& launch = setting.flags.launch;
  const bool elsewhere = launch.on_other_hosts();
  Common common;
  common.executable = setting.executable;
  common.run_dir = setting.run_dir;
  common.host = setting.host;
  common.arguments = job::without_flags(setting.arguments, {"dry-run", "env", "env-server", "env-worker", "env-file",
                                                            "sync-dst-dir", "exclude", "token-file"});
  const bool draws_token = setting.token.empty() && !setting.only_rank;
  common.token = draws_token ? job::make_token() : setting.token;
  common.environment = {
      "DTRAIN_TOKEN=" + common.token,
      fmt::format("DMLC_NUM_WORKER={}", setting.flags.job.num_workers),
      fmt::format("DMLC_NUM_SERVER={}", setting.flags.job.num_servers),
      "DMLC_JOB_CLUSTER=" + launch.launcher,
  };
  if (setting.only_rank) {
    const int64_t rank = *setting.only_rank;
    const int64_t here =
        (rank < setting.flags.job.num_servers ? 1 : 0) + (rank < setting.flags.job.num_workers ? 1 : 0);
    common.environment.push_back(fmt::format("{}={}", job::kHostRolesVariable, here));
  }
  if (setting.restart > 0) common.environment.push_back(fmt::format("{}={}", job::kRestartVariable, setting.restart));
  common.variables = setting.variables;
  common.assignment = setting.hosts;
  common.gpus = setting.flags.device.gpus;
  common.workers_here = elsewhere || setting.only_rank ? 0 : setting.flags.job.num_workers;
  if (elsewhere) place_processes(setting.hosts.value(), common);
  if (elsewhere && !setting.starter && replaces(setting.flags)) add_spares(*setting.hosts, common);
  common.remote_executable = remote_executable(setting.executable, launch.sync_dst_dir);
  if (elsewhere) common.address = setting.address;
  common.only_rank = setting.only_rank;
  common.loopback = !elsewhere && !setting.only_rank && !names_own_address(setting.flags);
  common.port_given = launch.port != 0;
  common.metrics_address = metrics_address_of_others(launch.metrics_addr);
  return common;
}

void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// Where a process runs.
struct Place {
  const job::ProcessSlot* slot = nullptr;  // in the host file; null if the file does not assign one
  size_t host_number = 0;
  job::GpuList gpus = {};  // the GPUs that the host file gives to it; empty: the flags decide
};

Place place_of(const Common& common, const std::string& role, int rank) {
  if (!common.assignment || role == "scheduler") return {};
  const auto at = static_cast<size_t>(rank);
  const bool is_server = role == "server";
  Place place{.slot = &(is_server ? common.assignment->servers : common.assignment->workers)[at]};
  const std::vector<size_t>& host_numbers = is_server ? common.host_of_server : common.host_of_worker;
  if (!host_numbers.empty()) place.host_number = host_numbers[at];
  if (!is_server) place.gpus = place.slot->gpus;
  return place;
}

// The place of a process whose host a spare one replaces. If that names GPUs, they are divided among workers as those
// of the host were.
Place place_on_spare(const Common& common, const std::string& role, int rank, size_t spare) {
  const auto at = static_cast<size_t>(rank);
  const std::vector<size_t>& hosts = common.host_of_worker;
  const job::ProcessSlot& slot = common.assignment->spares[spare];
  if (role == "server") return {.slot = &slot, .host_number = common.host_of_spare[spare]};
  Place place{.slot = &slot, .host_number = common.host_of_spare[spare], .gpus = common.assignment->workers[at].gpus};
  if (!slot.gpus.empty()) {
    const int64_t before = std::count(hosts.begin(), hosts.begin() + rank, hosts[at]);
    const int64_t workers = std::count(hosts.begin(), hosts.end(), hosts[at]);
    const int64_t parts = slot.gpus.has_numbers() ? std::min(workers, std::ssize(slot.gpus.numbers)) : workers;
    place.gpus = job::part_of(slot.gpus, before % parts, parts);
  }
  return place;
}

// The GPUs that are given to a worker in addition to the user's flags; empty if the flags are enough.
job::GpuList gpus_of(const Common& common, const Place& place, int rank) {
  const bool shares_all = place.gpus.empty() ? common.gpus.is_all() : !place.gpus.has_numbers();
  const bool divides = shares_all && common.workers_here > 0;
  return divides ? job::part_of(job::GpuList::all(), rank, common.workers_here) : place.gpus;
}

Command start_of(const Common& common, const std::string& role, int rank, const Place& place) {
  Command command{.role = role, .rank = rank, .host = common.host, .arguments = {common.executable}};
  if (place.slot != nullptr) command.host = place.slot->host;
  command.host_number = place.host_number;
  if (command.host_number > 0) {
    command.arguments = {common.remote_executable};
    append(command.environment, common.variables.forwarded);
    append(command.environment,
           {fmt::format("{}={}", job::kHostRolesVariable, common.processes_on[command.host_number])});
  }
  append(command.environment, role == "scheduler" ? common.variables.scheduler
                              : role == "server"  ? common.variables.server
                                                  : common.variables.worker);
  append(command.environment, common.environment);
  // If the job has other hosts, --advertise, --bind and --interface describe the scheduler's host. So the flags listed
  // in `own` are removed from the other arguments.
  const std::vector<std::string> own = role == "scheduler" ? std::vector<std::string>{"advertise", "interface"}
                                                           : std::vector<std::string>{"advertise", "bind"};
  append(command.arguments, common.other_hosts.empty() ? common.arguments : job::without_flags(common.arguments, own));
  append(command.arguments, {"--role", role, "--rank", std::to_string(rank), "--run-dir", common.run_dir});
  append(command.environment, {"DMLC_ROLE=" + role, fmt::format("DMLC_RANK={}", rank)});
  if (role == "scheduler") append(command.environment, {fmt::format("{}=1", job::kLauncherVariable)});
  const job::GpuList gpus = role == "worker" ? gpus_of(common, place, rank) : job::GpuList();
  if (!gpus.empty()) append(command.arguments, {"--gpus", job::format_value(gpus)});
  return command;
}

// `task`: the process's number among servers and workers, as dmlc's trackers count them.
Command command_at(const Common& common, const std::string& role, int rank, int task, const std::string& scheduler,
                   const Place& place) {
  Command command = start_of(common, role, rank, place);
  if (common.loopback) append(command.arguments, {"--advertise", kLoopback});
  if (role == "scheduler") {
    if (!common.address.empty()) append(command.arguments, {"--advertise", common.address});
    return command;
  }
  // --port is for the scheduler. Other processes on this host cannot use the same port, so they get --port 0.
  append(command.arguments, {"--scheduler", scheduler});
  if (common.port_given) append(command.arguments, {"--port", "0"});
  if (!common.metrics_address.empty()) append(command.arguments, {"--metrics-addr", common.metrics_address});
  const size_t colon = scheduler.rfind(':');
  append(command.environment, {"DMLC_PS_ROOT_URI=" + scheduler.substr(0, colon),
                               "DMLC_PS_ROOT_PORT=" + (colon == std::string::npos ? "" : scheduler.substr(colon + 1)),
                               fmt::format("DMLC_TASK_ID={}", task),
                               fmt::format("DMLC_{}_ID={}", role == "server" ? "SERVER" : "WORKER", rank)});
  return command;
}

Command command_for(const Common& common, const std::string& role, int rank, int task, const std::string& scheduler) {
  return command_at(common, role, rank, task, scheduler, place_of(common, role, rank));
}

// The worker that takes the place of a lost one, on its host or on this spare one. Where the run starts from does not
// concern it.
Command replacement_of(const Common& common, int rank, const std::string& scheduler, std::optional<size_t> spare) {
  const Place place = spare ? place_on_spare(common, "worker", rank, *spare) : place_of(common, "worker", rank);
  Command command = command_at(common, "worker", rank, rank, scheduler, place);
  const std::vector<std::string> flags(command.arguments.begin() + 1, command.arguments.end());
  command.arguments = {command.arguments.front(), "join"};
  append(command.arguments, job::without_flags(flags, {"resume", "retrain", "load-epoch", "overwrite"}));
  append(command.environment, {fmt::format("{}=1", job::kLauncherVariable)});
  return command;
}

// The server that takes the place of a lost one, on its host or on this spare one.
Command returning_server_of(const Common& common, int rank, int task, const std::string& scheduler,
                            std::optional<size_t> spare) {
  const Place place = spare ? place_on_spare(common, "server", rank, *spare) : place_of(common, "server", rank);
  Command command = command_at(common, "server", rank, task, scheduler, place);
  append(command.environment, {fmt::format("{}=1", job::kReturnsVariable)});
  return command;
}

// The scheduler that takes the place of one that was killed. The others know its address, so its port is the same.
Command returning_scheduler_of(const Common& common, const std::string& address, int64_t times) {
  Command command = command_for(common, "scheduler", 0, 0, "");
  const std::vector<std::string> flags(command.arguments.begin() + 1, command.arguments.end());
  command.arguments.resize(1);
  append(command.arguments, job::without_flags(flags, {"port", "port-range"}));
  append(command.arguments, {"--port", address.substr(address.rfind(':') + 1)});
  append(command.environment, {fmt::format("{}={}", job::kReturnsVariable, times)});
  return command;
}

// Servers come before workers, so that workers spend less time waiting for their servers.
std::vector<Command> others(const Common& common, int workers, int servers, const std::string& scheduler) {
  std::vector<Command> commands;
  commands.reserve(static_cast<size_t>(workers) + static_cast<size_t>(servers));
  const auto is_started = [&](int rank) { return !common.only_rank || rank == *common.only_rank; };
  for (int i = 0; i < servers; i++) {
    if (is_started(i)) commands.push_back(command_for(common, "server", i, workers + i, scheduler));
  }
  for (int i = 0; i < workers; i++) {
    if (is_started(i)) commands.push_back(command_for(common, "worker", i, i, scheduler));
  }
  return commands;
}

std::vector<OtherHost> other_hosts_of(const Common& common, const JobSetting& setting) {
  const job::LaunchFlags& launch = setting.flags.launch;
  std::vector<std::string> for_agent;  // dtrain may need this variable to start
  for (const std::string& entry : setting.variables.forwarded) {
    if (entry.starts_with("LD_LIBRARY_PATH=")) for_agent.push_back(entry);
  }
  std::vector<OtherHost> others;
  for (const job::SshAddress& address : common.other_hosts) {
    others.push_back({.name = host_name(address),
                      .ssh = setting.starter ? std::vector<std::string>() : ssh_command(address, "exec sh -s"),
                      .executable = common.remote_executable,
                      .directory = launch.sync_dst_dir.empty() ? setting.directory : launch.sync_dst_dir,
                      .agent = for_agent,
                      .copy = std::nullopt});
    if (launch.sync_dst_dir.empty()) continue;
    others.back().copy = host_copy(address, launch.sync_dst_dir, launch.exclude);
  }
  return others;
}

// The time limits of the job. Processes detect a failure within the heartbeat timeout plus 2 s. If the scheduler dies,
// they also try to reconnect during its grace period. See docs/protocol.md, "Time limits".
Limits limits_of(const job::Flags& flags, bool by_group) {
  const job::WireFlags& wire = flags.wire;
  constexpr auto kDetection = std::chrono::seconds(2);
  constexpr auto kSlack = std::chrono::seconds(3);
  Limits limits;
  limits.start = wire.start_timeout;
  // The agents of a group start together, so each may take as long as the whole start.
  if (by_group) limits.greet = wire.start_timeout;
  limits.settle = wire.heartbeat_timeout + kDetection + kSlack;
  limits.settle_scheduler = wire.heartbeat_timeout + wire.scheduler_grace + kDetection + kSlack;
  if (flags.launch.stop_timeout.count() > 0) {
    limits.stop = flags.launch.stop_timeout;
    limits.adds_measured = false;
    limits.kill_after = std::min(limits.kill_after, limits.stop);
  }
  return limits;
}

// Names of the variables that the agents of a group need. (With ssh, variables are sent to its standard input instead.)
std::vector<std::string> names_for_agents(const Variables& variables) {
  std::vector<std::string> names = {kAgentKey};
  for (const std::string& entry : variables.forwarded) {
    if (entry.starts_with("LD_LIBRARY_PATH=")) names.emplace_back("LD_LIBRARY_PATH");
  }
  return names;
}

AgentGroupOptions group_of(const Common& common, const JobSetting& setting, const std::vector<OtherHost>& others) {
  const job::LaunchFlags& launch = setting.flags.launch;
  AgentCommand agents{.hosts = {},
                      .launcher = common.address,
                      .directory = others.front().directory,
                      .arguments = {common.remote_executable, "launch-agent", "--connect"},
                      .variables = names_for_agents(setting.variables)};
  for (const OtherHost& other : others) agents.hosts.push_back(other.name);
  std::set<std::string> named(agents.hosts.begin(), agents.hosts.end());
  for (const std::string& host : setting.starter->allocation) {
    if (named.insert(host).second) agents.hosts.push_back(host);
  }
  return {.tool = setting.starter->tool,
          .command =
              [agents, starter = *setting.starter](const std::string& address) {
                AgentCommand with_address = agents;
                with_address.arguments.push_back(address);
                return starter.command(with_address);
              },
          .listen = {.host = launch.bind.empty() ? common.address : launch.bind,
                     .port_first = static_cast<uint16_t>(launch.port_first),
                     .port_last = static_cast<uint16_t>(launch.port_last)},
          .address = common.address,
          .hosts = agents.hosts,
          .follows_job = setting.starter->follows_job,
          .only_announces = setting.starter->only_announces,
          .needed = others.size()};
}

// The option --sync-dst-dir as it must be given again to resume the job; empty if it was not given.
std::string copied_again(const job::LaunchFlags& launch) {
  return launch.sync_dst_dir.empty() ? "" : " --sync-dst-dir " + proc::shell_line({launch.sync_dst_dir});
}

std::string commands_of_hosts(const Job& job) {
  std::string once;
  for (const OtherHost& other : job.other_hosts) {
    if (other.copy) once += copy_text(*other.copy, other.name);
    if (!other.ssh.empty()) once += proc::shell_line(other.ssh) + "\n";
  }
  if (!once.empty()) once.insert(0, "\ncommands that run once per host, before the processes start:\n");
  if (!job.group) return once;
  return once + "\ncommand that starts an agent on every host:\n" +
         proc::shell_line(job.group->command(job.group->address + ":PORT").arguments) + "\n";
}

// The names of a command's environment variables.
std::string names_of(const std::vector<std::string>& environment) {
  std::vector<std::string> names;
  names.reserve(environment.size());
  for (const std::string& entry : environment) names.push_back(entry.substr(0, entry.find('=')));
  return fmt::format("{}", fmt::join(names, " "));
}

}  // namespace

Result<Variables> variables_of(const job::LaunchFlags& flags, const job::Environment& environment) {
  Variables variables;
  DT_TRY(variables.scheduler, job::process_environment(flags, job::Role::kScheduler, environment));
  DT_TRY(variables.server, job::process_environment(flags, job::Role::kServer, environment));
  DT_TRY(variables.worker, job::process_environment(flags, job::Role::kWorker, environment));
  variables.forwarded = job::forwarded_environment(environment);
  return variables;
}

std::string job_name(const std::string& run_dir) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
  const std::filesystem::path path(run_dir);
  std::string name = path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  if (name == "." || name == "..") name.clear();
  for (char& c : name) {
    if (kPlain.find(c) == std::string_view::npos) c = '-';
  }
  name.erase(0, name.find_first_not_of('-'));
  return fmt::format("{}-{}", name.empty() ? "job" : name, job::make_token().substr(0, 8));
}

Job make_job(const JobSetting& setting) {
  const Common common = common_of(setting);
  const int workers = static_cast<int>(setting.flags.job.num_workers);
  const int servers = static_cast<int>(setting.flags.job.num_servers);
  Job job;
  job.name = job_name(setting.run_dir);
  job.scheduler = command_for(common, "scheduler", 0, 0, "");
  job.others = [=](const std::string& scheduler) { return others(common, workers, servers, scheduler); };
  job.limits = limits_of(setting.flags, setting.starter.has_value());
  job.record_root = setting.record_root;
  job.log_hint = [run_dir = setting.run_dir] { return "logs are in " + run_dir; };
  job.stopped_hint = fmt::format("stopped; dtrain --resume {}{} continues from the last checkpoint",
                                 proc::shell_line({setting.run_dir}), copied_again(setting.flags.launch));
  job.other_hosts = other_hosts_of(common, setting);
  if (setting.starter) job.group = group_of(common, setting, job.other_hosts);
  job.package = [executable = setting.executable,
                 temporary = setting.temporary](proc::SignalQueue& signals) -> Result<package::StagedPackage> {
    DT_TRY(const package::Contents contents, package::package_contents(executable, signals));
    return package::StagedPackage::create(contents, temporary, signals);
  };
  job.run_dir = setting.run_dir;
  job.is_for_people = setting.is_for_people;
  job.token = common.token;
  job.may_lose_workers = setting.flags.job.scheme.on_worker_loss != job::OnWorkerLoss::kFail;
  job.may_lose_servers = setting.flags.job.scheme.snapshot_every > 0;
  if (replaces(setting.flags)) {
    job.replacement = [=](const std::string& scheduler, const std::string& role, int rank,
                          std::optional<size_t> spare) {
      if (role == "server") return returning_server_of(common, rank, workers + rank, scheduler, spare);
      return replacement_of(common, rank, scheduler, spare);
    };
    job.spare_hosts = common.host_of_spare;
  }
  job.replacements_max = setting.flags.launch.max_restarts;
  if (!setting.flags.launch.state_dir.empty() && setting.flags.launch.max_restarts > 0) {
    job.returning_scheduler = [common](const std::string& address, int64_t times) {
      return returning_scheduler_of(common, address, times);
    };
  }
  job.allow_mixed_builds = setting.flags.launch.allow_mixed_builds;
  const int64_t port = setting.flags.launch.port;
  const std::string host = common.loopback ? kLoopback : common.address;
  job.scheduler_address = fmt::format(fmt::runtime(host.find(':') == std::string::npos ? "{}:{}" : "[{}]:{}"),
                                      host.empty() ? "HOST" : host, port == 0 ? "PORT" : std::to_string(port));
  if (setting.only_rank) {
    job.scheduler_address = setting.flags.launch.scheduler;
    job.joins_scheduler = *setting.only_rank > 0;
  }
  return job;
}

std::string dry_run_text(const Job& job) {
  std::vector<Command> commands;
  if (!job.joins_scheduler) commands.push_back(job.scheduler);
  for (Command& command : job.others(job.scheduler_address)) commands.push_back(std::move(command));
  std::string text = process_table(commands);
  if (job.other_hosts.empty()) return text;
  text += commands_of_hosts(job);
  text += fmt::format("\nenvironment variables, which are sent through {}:\n",
                      job.group ? "the connections of the agents" : "the standard input of ssh");
  for (const Command& command : commands) {
    if (command.host_number > 0) text += fmt::format("{}: {}\n", command.name(), names_of(command.environment));
  }
  return text;
}

std::vector<job::SshAddress> distinct_hosts(const job::HostAssignment& assignment) {
  std::vector<job::SshAddress> hosts;
  std::set<std::string> seen;
  for (const auto* slots : {&assignment.servers, &assignment.workers}) {
    for (const job::ProcessSlot& slot : *slots) {
      if (seen.insert(key_of(slot.ssh)).second) hosts.push_back(slot.ssh);
    }
  }
  return hosts;
}

std::string host_name(const job::SshAddress& address) {
  if (address.port == 0) return address.host;
  const bool v6 = address.host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), address.host, address.port);
}

std::string remote_executable(const std::string& executable, const std::string& copy) {
  return copy.empty() ? executable : copied_program(copy);
}

}  // namespace dtrain::launch
