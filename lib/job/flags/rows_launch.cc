// The flags of launching, of the network and of injected faults.
#include <fmt/ranges.h>
#include <algorithm>

#include "job/flags/flags.h"
#include "job/flags/presets.h"
#include "job/flags/rows.h"
#include "job/process/process_environment.h"

namespace dtrain::job {

namespace {

// An IPv6 address may be given in brackets, because it needs them when a port follows.
Binding<Flags> address(Binding<Flags> binding) {
  binding.set = [plain = binding.set](Flags& flags, std::string_view text) {
    const bool has_brackets = text.size() > 2 && text.front() == '[' && text.back() == ']';
    return plain(flags, has_brackets ? text.substr(1, text.size() - 2) : text);
  };
  return binding;
}

// Stores "9100-9200" in two members.
Binding<Flags> port_range() {
  return {
      .set = [](Flags& flags, std::string_view text) -> Result<> {
        const size_t dash = std::min(text.find('-'), text.size());
        int64_t first = 0, last = 0;
        const bool are_numbers =
            dash < text.size() && parse_value(text.substr(0, dash), first) && parse_value(text.substr(dash + 1), last);
        if (!are_numbers || first < 1 || last > 65535 || first > last) {
          return fail(Code::kUsage,
                      "'{}' does not have the form FIRST-LAST, with ports from 1 to 65535, as in 9091-9100; a single "
                      "port is --port N",
                      text);
        }
        flags.launch.port_first = first;
        flags.launch.port_last = last;
        return {};
      },
      .get =
          [](const Flags& flags) {
            const LaunchFlags& launch = flags.launch;
            return launch.port_last == 0 ? "none" : fmt::format("{}-{}", launch.port_first, launch.port_last);
          }};
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> names = {"local", "ssh", "mpi"};
  names.insert(names.end(), kBatchSystems.begin(), kBatchSystems.end());
  names.emplace_back("print");
  return names;
}

// The value is NAME or NAME=ARGUMENT.
Binding<Flags> launcher() {
  return {.set = [](Flags& flags, std::string_view text) -> Result<> {
            const std::string_view name = text.substr(0, text.find('='));
            DT_TRY_VOID(check_choice(name, launcher_names(), {}));
            const bool takes_argument = name == "sge" || name == "yarn" || name == "print";
            if (name != text && !takes_argument) return fail(Code::kUsage, "{} takes no value after '='", name);
            if (text.ends_with('=')) return fail(Code::kUsage, "'{}': the value after the '=' is missing", text);
            const std::string_view argument = name == text ? "" : text.substr(name.size() + 1);
            for (const std::string_view system : split_list(name == "print" ? argument : "")) {
              DT_TRY_VOID(check_choice(system, {kBatchSystems.begin(), kBatchSystems.end()}, {}));
            }
            flags.launch.launcher = name;
            flags.launch.launcher_argument = argument;
            return {};
          },
          .get =
              [](const Flags& flags) {
                const LaunchFlags& launch = flags.launch;
                return launch.launcher + (launch.launcher_argument.empty() ? "" : "=" + launch.launcher_argument);
              }};
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

// dmlc's launchers count the attempts, of which the first is no restart. Other texts are left as they are, for the
// error.
std::string restarts_of_attempts(std::string_view attempts) {
  int64_t count = 0;
  return parse_value(attempts, count) && count > 0 ? std::to_string(count - 1) : std::string(attempts);
}

// Like word_of, but shows only the names of the variables, because the values may be secrets.
Binding<Flags> variable_of(std::vector<std::string> LaunchFlags::*member) {
  Binding<Flags> binding = word_of(&Flags::launch, member);
  const auto append = binding.set;
  binding.set = [append](Flags& flags, std::string_view text) -> Result<> {
    DT_TRY_VOID(parse_variable(text));
    return append(flags, text);
  };
  binding.get = [member](const Flags& flags) {
    std::string names;
    for (const std::string& word : flags.launch.*member) {
      const Result<Variable> variable = parse_variable(word);
      if (variable) names += (names.empty() ? "" : " ") + variable->name;
    }
    return names.empty() ? "none" : names;
  };
  return binding;
}

std::vector<Row> job_rows() {
  return {
      {.name = "num-workers",
       .aliases = {"-n"},
       .value = "W",
       .help = "number of workers; starts a job of a scheduler, servers and workers",
       .bind = DT_FIELD(Flags, job.num_workers),
       .default_text = "none: one process trains alone",
       .min = 1,
       .max = kProcessesMax,
       .scope = Scope::kJob,
       .environment = "DMLC_NUM_WORKER"},
      {.name = "num-servers",
       .aliases = {"-s"},
       .value = "S",
       .help = "number of servers",
       .bind = DT_FIELD(Flags, job.num_servers),
       .default_text = "the number of workers",
       .min = 0,
       .max = kProcessesMax,
       .scope = Scope::kJob,
       .environment = "DMLC_NUM_SERVER"},
      {.name = "hostfile",
       .aliases = {"-H", "--host-file"},
       .value = "FILE",
       .help = "file that lists the hosts, one per line: HOST, HOST:SSHPORT or [IPV6], then any of slots=K, gpus=0,1 "
               "(or gpus=auto: all GPUs of the host), role=worker, user=U, spare=1",
       .brief = "file that lists the hosts of a job, one per line",
       .bind = DT_FIELD(Flags, launch.hostfile, "none")},
      {.name = "host-order",
       .value = "ORDER",
       .help = "how to distribute the processes over the hosts: spread (hosts take turns) or pack (fill the slots=K of "
               "one host before the next)",
       .bind = DT_FIELD(Flags, launch.host_order)},
      {.name = "launcher",
       .value = "NAME",
       .help = "where to start the processes: local (on this host), ssh (on the hosts of -H), mpi (with mpirun, on the "
               "hosts of -H or of mpirun's allocation), slurm (with srun inside a Slurm allocation, otherwise as a job "
               "submitted with sbatch), sge (as a task array submitted with qsub; sge=NAME uses the parallel "
               "environment NAME), yarn=URL (in YARN containers; URL is the address of the resource manager's web "
               "services, http://HOST:8088) or kubernetes (in pods). With print nothing is started: the files for the "
               "batch systems are printed, or with print=slurm,sge only those for the named systems",
       .bind = launcher(),
       .default_text =
           "ssh with -H; otherwise slurm or mpi if dtrain runs in an allocation of several hosts; otherwise local",
       .suggestions = launcher_names()},
      {.name = "sync-dst-dir",
       .value = "DIR",
       .help = "copy this program, its libraries and the current directory to DIR on every host, and run the job there",
       .bind = DT_FIELD(Flags, launch.sync_dst_dir, "none")},
      {.name = "exclude",
       .value = "PATTERN",
       .help = "pattern of files that --sync-dst-dir does not copy; may be repeated",
       .bind = word_of(&Flags::launch, &LaunchFlags::exclude),
       .repeats = true},
  };
}

// The environment of the started processes, and flags of the run as a whole.
std::vector<Row> run_rows() {
  return {
      {.name = "env",
       .value = "NAME[=VALUE]",
       .help = "set an environment variable for the started processes; NAME alone passes on the launcher's value; may "
               "be repeated",
       .bind = variable_of(&LaunchFlags::env),
       .repeats = true},
      {.name = "env-server",
       .value = "NAME[=VALUE]",
       .help = "like --env, for the servers only; may be repeated",
       .bind = variable_of(&LaunchFlags::env_server),
       .repeats = true},
      {.name = "env-worker",
       .value = "NAME[=VALUE]",
       .help = "like --env, for the workers only; may be repeated",
       .bind = variable_of(&LaunchFlags::env_worker),
       .repeats = true},
      {.name = "env-file",
       .value = "FILE",
       .help = "file with one NAME or NAME=VALUE per line, used like --env",
       .bind = DT_FIELD(Flags, launch.env_file, "none")},
      {.name = "config",
       .value = "FILE",
       .help = "TOML file with values for flags",
       .bind = DT_FIELD(Flags, launch.config, "none")},
      {.name = "preset",
       .value = "NAME",
       .help = fmt::format("named set of values for flags: {}", fmt::join(preset_names(), ", ")),
       .brief = "named set of values for flags, such as mnist, cifar10 or imagenet",
       .bind = DT_FIELD(Flags, launch.preset, "none"),
       .suggestions = preset_names()},
      {.name = "run-dir",
       .aliases = {"--log-dir"},
       .value = "DIR",
       .help = "directory for logs, metrics, checkpoints, the JobSpec and the summary; it must not hold another run",
       .brief = "directory for logs and checkpoints",
       .bind = DT_FIELD(Flags, launch.run_dir),
       .default_text = "runs/<network>-<time>"},
      {.name = "overwrite",
       .help = "delete the run in --run-dir (its checkpoints, logs and metrics) and start a new one",
       .bind = DT_FIELD(Flags, launch.overwrite)},
      {.name = "dry-run",
       .help = "print the JobSpec, the processes and their memory, and exit",
       .bind = DT_FIELD(Flags, launch.dry_run)},
      {.name = "max-restarts",
       .aliases = {{"--num-attempt", restarts_of_attempts}, {"--local-num-attempt", restarts_of_attempts}},
       .value = "N",
       .help =
           "how often the launcher starts a failed job again from its last checkpoint, on the same hosts or on those "
           "with spare=1 in the host file (--num-attempt A means A - 1 restarts)",
       .bind = DT_FIELD(Flags, launch.max_restarts),
       .min = 0,
       .max = 1000},
      {.name = "stop-timeout",
       .value = "TIME",
       .help = "time that a job has, when it is told to stop, to finish its last steps and write a checkpoint before "
               "it is killed",
       .bind = DT_FIELD(Flags, launch.stop_timeout),
       .default_text = "120 s plus three times the longest step and checkpoint of the job so far",
       .min = 0,
       .max = kSecondsMax},
      {.name = "threads",
       .value = "N",
       .help = "number of threads of this process, for computing, decoding and communication",
       .bind = DT_FIELD(Flags, launch.threads),
       .default_text = "cores of the host divided by the processes on it",
       .min = 0,
       .max = kThreadsMax},
      {.name = "metrics-addr",
       .value = "[HOST:]PORT",
       .help = "serve a page that shows the running job at http://HOST:PORT/, and the metrics of the job to Prometheus "
               "at http://HOST:PORT/metrics; without HOST, the address is 127.0.0.1; port 0 means any free port; an "
               "address that other hosts can reach requires a token (--token-file or DTRAIN_TOKEN)",
       .bind = DT_FIELD(Flags, launch.metrics_addr, "none")},
      {.name = "verbose",
       .value = "0|1|2",
       .help = "log more: 1 adds connections, 2 adds every message between a worker and the servers",
       .bind = DT_FIELD(Flags, launch.verbose),
       .choices = {"0", "1", "2"},
       .min = 0,
       .max = 2,
       .environment = "PS_VERBOSE"},
  };
}

std::vector<Row> node_rows() {
  return {
      {.name = "role",
       .value = "ROLE",
       .help = "run one process of a job, without a launcher: scheduler, server or worker",
       .bind = DT_FIELD(Flags, launch.role),
       .environment = "DMLC_ROLE"},
      {.name = "scheduler",
       .value = "HOST:PORT",
       .help = "address of the scheduler, for a process with --role",
       .bind = DT_FIELD(Flags, launch.scheduler, "none")},
      {.name = "rank",
       .value = "N",
       .help = "rank of this process within its role, for a process with --role",
       .bind = DT_FIELD(Flags, launch.rank),
       .default_text = "assigned by the scheduler",
       .min = 0,
       .max = kProcessesMax - 1},
      {.name = "interface",
       .aliases = {"-i", "--dmlc-interface"},
       .value = "NAME,...",
       .help = "names of network interfaces; each host uses the first one that it has",
       .bind = DT_FIELD(Flags, launch.interfaces, "none"),
       .default_text = "the interface on the route to the scheduler",
       .environment = "DMLC_INTERFACE"},
      {.name = "advertise",
       .value = "ADDRESS",
       .help = "address at which other processes reach this one",
       .bind = address(DT_FIELD(Flags, launch.advertise)),
       .default_text = "the address on the route to the scheduler",
       .environment = "DMLC_NODE_HOST"},
      {.name = "bind",
       .value = "ADDRESS",
       .help = "address to listen on",
       .bind = address(DT_FIELD(Flags, launch.bind)),
       .default_text = "the address of --advertise"},
      {.name = "port",
       .value = "N",
       .help = "port to listen on; 0 means any free port",
       .bind = DT_FIELD(Flags, launch.port),
       .min = 0,
       .max = 65535},
      {.name = "port-range",
       .value = "FIRST-LAST",
       .help = "listen on a free port in this range",
       .bind = port_range()},
      {.name = "token-file",
       .value = "FILE",
       .help = "file with the token that all processes of the job must share",
       .bind = DT_FIELD(Flags, launch.token_file),
       .default_text = "environment variable DTRAIN_TOKEN"},
      {.name = "insecure",
       .help = "allow a job without a token on addresses other than loopback",
       .bind = DT_FIELD(Flags, launch.insecure)},
      {.name = "tls-cert",
       .value = "FILE",
       .help = "certificate of this process; turns on TLS for its connections, and for a --metrics-addr that other "
               "hosts can reach",
       .bind = DT_FIELD(Flags, launch.tls_cert, "none")},
      {.name = "tls-key",
       .value = "FILE",
       .help = "private key of --tls-cert",
       .bind = DT_FIELD(Flags, launch.tls_key, "none")},
      {.name = "tls-ca",
       .value = "FILE",
       .help = "certificate of the authority that signed the other processes' certificates",
       .bind = DT_FIELD(Flags, launch.tls_ca, "none")},
      {.name = "allow-mixed-builds",
       .help = "allow processes of another build of dtrain in the job",
       .bind = DT_FIELD(Flags, launch.allow_mixed_builds)},
  };
}

std::vector<Row> all_of(std::initializer_list<std::vector<Row>> parts) {
  std::vector<Row> rows;
  for (const std::vector<Row>& part : parts) rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

// When a process counts as lost.
std::vector<Row> time_limit_rows() {
  return {
      {.name = "heartbeat-interval",
       .value = "TIME",
       .help = "time between two heartbeats of a process",
       .bind = DT_FIELD(Flags, wire.heartbeat_interval),
       .min = 0.1,
       .max = kSecondsMax},
      {.name = "heartbeat-timeout",
       .value = "TIME",
       .help = "time without a heartbeat after which a process counts as lost; at least 3 times --heartbeat-interval",
       .bind = DT_FIELD(Flags, wire.heartbeat_timeout),
       .min = 0.1,
       .max = kSecondsMax},
      {.name = "stall-timeout",
       .value = "TIME",
       .help =
           "time after which a process counts as lost although it sends heartbeats: it makes no step and waits for no "
           "other process, or cannot report what it does; off: it is only named in the log, after a minute",
       .bind = DT_FIELD(Flags, wire.stall_timeout, "off"),
       .min = 0,
       .max = kSecondsMax},
      {.name = "start-timeout",
       .value = "TIME",
       .help = "time within which all processes must join the job",
       .bind = DT_FIELD(Flags, wire.start_timeout),
       .min = 0,
       .max = kSecondsMax},
      {.name = "scheduler-grace",
       .value = "TIME",
       .help = "time within which a lost scheduler must come back",
       .bind = DT_FIELD(Flags, wire.scheduler_grace),
       .min = 0,
       .max = kSecondsMax},
      {.name = "state-dir",
       .value = "DIR",
       .help = "directory on the launcher's host in which the scheduler keeps what it decides, so that a job continues "
               "when its scheduler is killed and the launcher starts it again (--max-restarts)",
       .bind = DT_FIELD(Flags, launch.state_dir, "none")},
  };
}

// What becomes of the job then.
std::vector<Row> loss_rows() {
  return {
      {.name = "on-worker-loss",
       .value = "POLICY",
       .help = "what to do when a worker is lost while the job trains: fail (end the job with exit code 5 and name the "
               "worker), wait (for another worker to take its place) or shrink (continue without it); GPUs that add up "
               "their gradients over NCCL can only fail",
       .bind = DT_FIELD(Flags, job.scheme.on_worker_loss),
       .choices = {"fail", "wait", "shrink"},
       .scope = Scope::kJob},
      {.name = "rejoin-timeout",
       .value = "TIME",
       .help =
           "time within which another process must begin to take the place of a lost worker (--on-worker-loss wait) or "
           "server (--snapshot-every)",
       .bind = DT_FIELD(Flags, wire.rejoin_timeout),
       .min = 1,
       .max = kSecondsMax},
      {.name = "reshare",
       .value = "WHEN",
       .help = "when the workers that are left divide the records of one that is gone: epoch (at the end of the epoch; "
               "what it had not read of this epoch is left out) or now (all stop after a step and divide the rest)",
       .bind = DT_FIELD(Flags, job.scheme.reshare),
       .choices = {"epoch", "now"},
       .scope = Scope::kJob},
      {.name = "elastic-batch",
       .value = "HOW",
       .help = "how training adapts to another number of workers (--on-worker-loss): off (an update is a mean over "
               "fewer or more samples, at the same learning rate), keep (an update keeps its samples: each worker adds "
               "up the gradients of several batches) or scale (as off, but the learning rate is multiplied by the "
               "number of workers divided by that at the start); only in jobs whose workers make each update together, "
               "such as those of dist_sync",
       .bind = DT_FIELD(Flags, job.scheme.elastic_batch),
       .choices = {"off", "keep", "scale"},
       .scope = Scope::kJob},
      {.name = "min-workers",
       .value = "N",
       .help = "least number of workers with which the job continues (--on-worker-loss)",
       .bind = DT_FIELD(Flags, wire.min_workers),
       .min = 1,
       .max = kProcessesMax},
      {.name = "max-workers",
       .value = "N",
       .help = "largest number of workers that the job may have when others join it (dtrain join); 0: as many as it "
               "starts with (--on-worker-loss)",
       .bind = DT_FIELD(Flags, job.scheme.max_workers),
       .min = 0,
       .max = kProcessesMax,
       .scope = Scope::kJob},
      {.name = "snapshot-every",
       .value = "N",
       .help =
           "each server keeps a snapshot of its weights in the run directory (or --state-dir) every N updates, so "
           "that another server can take the place of a lost one: the launcher starts it (--max-restarts), and in "
           "dist_sync the job goes back to the newest snapshot of all servers, otherwise only the new server to its "
           "own; 0: a lost server ends the job",
       .bind = DT_FIELD(Flags, job.scheme.snapshot_every),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
  };
}

std::vector<Row> fault_rows() {
  return {
      {.name = "drain",
       .help = "TERM makes a worker leave the job after its step, and the others continue (--on-worker-loss); TERM to "
               "all workers stops the job",
       .bind = DT_FIELD(Flags, wire.drain)},
      {.name = "inject",
       .value = "RULES",
       .help = "inject faults, for tests. RULES is a comma-separated list of drop=P and dup=P (the probability that a "
               "message is lost or duplicated), delay=A..Bms (of messages), step-ms=MS and index-ms=MS (the least time "
               "of a step and of indexing a record file), kill=ROLE:RANK@step:N, kill=ROLE:RANK@MESSAGE:N (at the N-th "
               "message of this name, or MS ms later with +MSms appended), stop= (SIGSTOP) in the same forms, and "
               "seed=N; drop, dup, delay, step-ms and index-ms apply to all processes, or to one process if "
               "@ROLE:RANK is appended",
       .bind = DT_FIELD(Flags, wire.inject, "none")},
  };
}

}  // namespace

std::vector<Row> launch_rows() {
  return all_of({job_rows(), run_rows(), node_rows()});
}

std::vector<Row> wire_rows() {
  return all_of({time_limit_rows(), loss_rows(), fault_rows()});
}

}  // namespace dtrain::job
