// The flags of launching, of the network and of injected faults.
#include "job/flags/presets.h"
#include "job/flags/rows.h"
#include "job/process/process_environment.h"

namespace dtrain::job {

namespace {

// "9100-9200" as two members.
Binding<Flags> port_range() {
  return {.set = [](Flags& flags, std::string_view text) -> Result<> {
            const size_t dash = std::min(text.find('-'), text.size() - 1);
            int64_t first = 0, last = 0;
            DT_TRY_VOID(parse_value(text.substr(0, dash), first));
            DT_TRY_VOID(parse_value(text.substr(dash + 1), last));
            if (first < 1 || last > 65535 || first > last)
              return fail(Code::kUsage, "'{}' is not FIRST-LAST in 1-65535", text);
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

std::string preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Each time it is given, one more.
template <class Member>
Binding<Flags> word_of(Member member) {
  return {.set = [member](Flags& flags, std::string_view text) -> Result<> {
            if (text.empty()) return fail(Code::kUsage, "an empty text is none");
            (flags.launch.*member).emplace_back(text);
            return {};
          },
          .get =
              [member](const Flags& flags) {
                const std::vector<std::string>& words = flags.launch.*member;
                return words.empty() ? "none" : fmt::format("{}", fmt::join(words, " "));
              }};
}

// Its values may be secrets: shown are the names.
template <class Member>
Binding<Flags> variable_of(Member member) {
  Binding<Flags> binding = word_of(member);
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
       .help = "workers of the job",
       .bind = DT_FIELD(Flags, job.num_workers),
       .default_text = "none: one process",
       .min = 1,
       .max = kProcessesMax,
       .scope = Scope::kJob,
       .environment = "DMLC_NUM_WORKER"},
      {.name = "num-servers",
       .aliases = {"-s"},
       .value = "S",
       .help = "servers of the job",
       .bind = DT_FIELD(Flags, job.num_servers),
       .default_text = "W",
       .min = 0,
       .max = kProcessesMax,
       .scope = Scope::kJob,
       .environment = "DMLC_NUM_SERVER"},
      {.name = "hostfile",
       .aliases = {"-H", "--host-file"},
       .value = "FILE",
       .help = "hosts, one a line: host, host:sshport or [v6], slots=K, gpus=0,1, role=worker, user=U",
       .bind = DT_FIELD(Flags, launch.hostfile, "none")},
      {.name = "host-order",
       .value = "ORDER",
       .help = "how processes fill hosts: spread, in turns; pack, each host (slots=K) before the next",
       .bind = DT_FIELD(Flags, launch.host_order)},
      {.name = "launcher",
       .value = "NAME",
       .help = "what starts the processes: local; ssh, on the hosts of -H",
       .bind = DT_FIELD(Flags, launch.launcher),
       .default_text = "ssh with -H, else local",
       .choices = {"local", "ssh"},
       .later = {"mpi", "slurm", "sge", "yarn", "kubernetes", "print"}},
      {.name = "sync-dst-dir",
       .value = "DIR",
       .help = "copy the current directory to DIR on every host by rsync, and run there",
       .bind = DT_FIELD(Flags, launch.sync_dst_dir, "none")},
      {.name = "exclude",
       .value = "PATTERN",
       .help = "of --sync-dst-dir: leave these files out; may be given again",
       .bind = word_of(&LaunchFlags::exclude),
       .repeats = true},
  };
}

// What the started processes find, and what a run is given as a whole.
std::vector<Row> run_rows() {
  return {
      {.name = "env",
       .value = "NAME[=VALUE]",
       .help = "variable for the started processes, without a value the launcher's own; may be given again",
       .bind = variable_of(&LaunchFlags::env),
       .repeats = true},
      {.name = "env-server",
       .value = "NAME[=VALUE]",
       .help = "the same for servers",
       .bind = variable_of(&LaunchFlags::env_server),
       .repeats = true},
      {.name = "env-worker",
       .value = "NAME[=VALUE]",
       .help = "the same for workers",
       .bind = variable_of(&LaunchFlags::env_worker),
       .repeats = true},
      {.name = "env-file",
       .value = "FILE",
       .help = "file of such variables, one a line",
       .bind = DT_FIELD(Flags, launch.env_file, "none")},
      {.name = "config",
       .value = "FILE",
       .help = "TOML file of flags; flags of the command line win",
       .bind = DT_FIELD(Flags, launch.config, "none")},
      {.name = "preset",
       .value = "NAME",
       .help = "row of defaults: " + preset_names(),
       .bind = DT_FIELD(Flags, launch.preset, "none")},
      {.name = "run-dir",
       .aliases = {"--log-dir"},
       .value = "DIR",
       .help = "logs, metrics, checkpoints, JobSpec, summary; a directory that holds another run is refused",
       .bind = DT_FIELD(Flags, launch.run_dir),
       .default_text = "runs/<job>-<time>"},
      {.name = "overwrite",
       .help = "remove the run that --run-dir holds: its checkpoints, logs and metrics",
       .bind = DT_FIELD(Flags, launch.overwrite)},
      {.name = "dry-run",
       .help = "print the JobSpec, the processes and their memory; start nothing",
       .bind = DT_FIELD(Flags, launch.dry_run)},
      {.name = "threads",
       .value = "N",
       .help = "threads of this role: compute, decode and network share them",
       .bind = DT_FIELD(Flags, launch.threads),
       .default_text = "cores of the host / roles on it",
       .min = 0,
       .max = kThreadsMax},
      {.name = "verbose",
       .value = "0|1|2",
       .help = "1: connections, 2: every message",
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
       .help = "scheduler, server or worker: this process alone, by hand",
       .bind = DT_FIELD(Flags, launch.role),
       .environment = "DMLC_ROLE"},
      {.name = "scheduler",
       .value = "HOST:PORT",
       .help = "address of the scheduler, by hand",
       .bind = DT_FIELD(Flags, launch.scheduler, "none")},
      {.name = "rank",
       .value = "N",
       .help = "this process's rank in its role",
       .bind = DT_FIELD(Flags, launch.rank),
       .default_text = "given out",
       .min = 0,
       .max = kProcessesMax - 1},
      {.name = "interface",
       .aliases = {"-i", "--dmlc-interface"},
       .value = "NAME,...",
       .help = "network interface by its exact name; each host takes the first of them that it has",
       .bind = DT_FIELD(Flags, launch.interfaces, "none"),
       .default_text = "by the route to the scheduler",
       .environment = "DMLC_INTERFACE"},
      {.name = "advertise",
       .value = "ADDRESS",
       .help = "address that peers are told",
       .bind = DT_FIELD(Flags, launch.advertise),
       .default_text = "the one that a route to the scheduler has",
       .environment = "DMLC_NODE_HOST"},
      {.name = "bind",
       .value = "ADDRESS",
       .help = "address listened on",
       .bind = DT_FIELD(Flags, launch.bind),
       .default_text = "= --advertise"},
      {.name = "port",
       .value = "N",
       .help = "own port, 0 a free one",
       .bind = DT_FIELD(Flags, launch.port),
       .min = 0,
       .max = 65535},
      {.name = "port-range", .value = "A-B", .help = "own port out of a range", .bind = port_range()},
      {.name = "token-file",
       .value = "FILE",
       .help = "the job's token",
       .bind = DT_FIELD(Flags, launch.token_file),
       .default_text = "DTRAIN_TOKEN"},
      {.name = "insecure", .help = "run without a token beyond loopback", .bind = DT_FIELD(Flags, launch.insecure)},
      {.name = "tls-cert",
       .value = "FILE",
       .help = "TLS on every stream: certificate of this node",
       .bind = DT_FIELD(Flags, launch.tls_cert, "none")},
      {.name = "tls-key", .value = "FILE", .help = "its key", .bind = DT_FIELD(Flags, launch.tls_key, "none")},
      {.name = "tls-ca",
       .value = "FILE",
       .help = "who signed the peers' certificates",
       .bind = DT_FIELD(Flags, launch.tls_ca, "none")},
      {.name = "allow-mixed-builds",
       .help = "join peers with another build id",
       .bind = DT_FIELD(Flags, launch.allow_mixed_builds)},
  };
}

}  // namespace

std::vector<Row> launch_rows() {
  std::vector<Row> rows = job_rows();
  for (std::vector<Row> part : {run_rows(), node_rows()}) {
    for (Row& row : part) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> wire_rows() {
  return {
      {.name = "heartbeat-interval",
       .value = "TIME",
       .help = "between two signs of life, at least 100ms",
       .bind = DT_FIELD(Flags, wire.heartbeat_interval),
       .min = 0.1,
       .max = kSecondsMax},
      {.name = "heartbeat-timeout",
       .value = "TIME",
       .help = "silence after which a peer is lost, at least 3 intervals",
       .bind = DT_FIELD(Flags, wire.heartbeat_timeout),
       .min = 0.1,
       .max = kSecondsMax},
      {.name = "start-timeout",
       .value = "TIME",
       .help = "until all have joined",
       .bind = DT_FIELD(Flags, wire.start_timeout),
       .min = 0,
       .max = kSecondsMax},
      {.name = "scheduler-grace",
       .value = "TIME",
       .help = "for a lost scheduler to come back",
       .bind = DT_FIELD(Flags, wire.scheduler_grace),
       .min = 0,
       .max = kSecondsMax},
      {.name = "on-worker-loss",
       .value = "POLICY",
       .help = "fail: the job ends with code 5, naming the lost one",
       .bind = DT_FIELD(Flags, wire.on_worker_loss),
       .choices = {"fail"},
       .later = {"wait", "shrink"}},
      {.name = "inject",
       .value = "RULES",
       .help = "faults for tests: drop=P, dup=P, delay=A..Bms, step-ms=MS, index-ms=MS, each with @role:rank or for "
               "all; kill=role:rank@step:N; seed=N; with commas between them",
       .bind = DT_FIELD(Flags, wire.inject, "none")},
  };
}

}  // namespace dtrain::job
