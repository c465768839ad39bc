// `dtrain bench dlbs`: runs the part of a DLBS benchmark that belongs to one node, with the parameters and the log of
// DLBS.
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/host_limits.h"
#include "bench/dlbs/benchmark.h"
#include "bench/dlbs/report.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "job/process/token.h"
#include "launch/make_job.h"
#include "notes.h"
#include "role/process/run_dir.h"
#include "role/role.h"
#include "signal_thread.h"
#include "start_job.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct BenchDlbsOptions {
  std::string config;
  // The parameters that -P and the flags set, in the order of the command line.
  std::vector<bench::DlbsSetting> settings;
  std::vector<std::string> job;  // flags of training, which are passed to the job
  bool dry_run = false;
};
using BenchDlbsRow = job::FlagRow<BenchDlbsOptions>;

BenchDlbsRow setting_row() {
  return {.name = "P",
          .value = "NAME=VALUE",
          .help = "set a parameter, as in -Pexp.model=resnet50; VALUE is JSON or a plain word",
          .bind = {.set = [](BenchDlbsOptions& options, std::string_view text) -> Result<> {
                     DT_TRY(bench::DlbsSetting setting, bench::parse_dlbs_setting(text));
                     options.settings.push_back(std::move(setting));
                     return {};
                   },
                   .get = [](const BenchDlbsOptions&) { return std::string("none"); }},
          .repeats = true};
}

// A flag that sets a parameter. Its name is that of the parameter without the prefix, such as --model for exp.model. If
// -P or another such flag sets the same parameter, the one that comes later counts.
BenchDlbsRow parameter_row(const std::string& name, const std::string& parameter, const std::string& value,
                           const std::string& help, const std::string& default_text) {
  return {.name = name,
          .value = value,
          .help = fmt::format("{}: {}", parameter, help),
          .bind = {.set = [parameter](BenchDlbsOptions& options, std::string_view text) -> Result<> {
                     options.settings.push_back({parameter, std::string(text)});
                     return {};
                   },
                   .get = [default_text](const BenchDlbsOptions&) { return default_text; }}};
}

// A flag of training that is passed to the processes of the node.
BenchDlbsRow job_row(const std::string& name) {
  const Result<size_t> index = job::training_flags().find("--" + name);
  DT_CHECK(index, "no flag '{}'", name);
  const job::Row& training = job::training_flags().rows()[*index];
  job::Binding<BenchDlbsOptions> bind = {
      .set = [flag = training.spelling()](BenchDlbsOptions& options, std::string_view text) -> Result<> {
        options.job.push_back(fmt::format("{}={}", flag, text));
        return {};
      },
      .get = [&training](const BenchDlbsOptions&) { return training.bind.get(job::Flags{}); },
      .boolean = training.bind.boolean};
  return training_row<BenchDlbsOptions>(name, std::move(bind), training.default_text);
}

std::vector<BenchDlbsRow> bench_dlbs_rows() {
  std::vector<BenchDlbsRow> rows = {
      {.name = "config",
       .value = "FILE.json",
       .help = "read parameters from a DLBS configuration file; -P and flags override its values",
       .bind = DT_FIELD(BenchDlbsOptions, config),
       .default_text = "none"},
      setting_row(),
      parameter_row("model", "exp.model", "ID", "DLBS's name of the network", "none"),
      parameter_row("phase", "exp.phase", "training|inference", "what to measure", "training"),
      parameter_row("replica-batch", "exp.replica_batch", "N", "batch size of each GPU, or of the CPU", "16"),
      parameter_row("gpus", "exp.gpus", "LIST",
                    "GPUs to use on each node, such as 0,1 or 0-3, or all; \"\" means the CPU", "0"),
      parameter_row("dtype", "exp.dtype", "float32|float16", "data type of parameters and activations", "float32"),
      parameter_row("num-warmup-batches", "exp.num_warmup_batches", "N", "number of batches before the measurement",
                    "1"),
      parameter_row("num-batches", "exp.num_batches", "N", "number of batches to measure", "100"),
      parameter_row("num-nodes", "exp.num_nodes", "N", "number of nodes; run this command on each of them", "1"),
      parameter_row("rank", "mxnet.rank", "R", "rank of this node; the scheduler runs on node 0", "none"),
      parameter_row("rendezvous", "mxnet.rendezvous", "[INTERFACE:]HOST:PORT", "an address of node 0",
                    "127.0.0.1:4000"),
      parameter_row("kv-store", "mxnet.kv_store", "STORE", "how gradients are summed", "device"),
      parameter_row("log-file", "exp.log_file", "FILE", "file for a copy of the log, which also goes to stdout",
                    "as the parameters name it"),
      {.name = "dry-run",
       .help = "print the parameters and the command that would be run",
       .bind = DT_FIELD(BenchDlbsOptions, dry_run)},
  };
  for (const char* name : {"run-dir", "threads", "token-file", "insecure", "tls-cert", "tls-key", "tls-ca",
                           "start-timeout", "heartbeat-interval", "heartbeat-timeout", "scheduler-grace", "on-nan"}) {
    rows.push_back(job_row(name));
  }
  return rows;
}

constexpr const char* kBenchDlbsUsage = "dtrain bench dlbs [FLAGS]";

// Hides the variables for dmlc's programs, because they do not describe this benchmark.
job::Environment without_dmlc(const job::Environment& environment) {
  return [environment](const std::string& name) {
    return name.starts_with("DMLC_") ? std::optional<std::string>() : environment(name);
  };
}

// A benchmark, and the flags with which it trains.
struct Planned {
  bench::DlbsParameters parameters;
  bench::DlbsBenchmark benchmark;
  std::vector<std::string> arguments = {};  // the arguments from which the flags were parsed
  job::Flags flags = {};
};

Result<bench::DlbsParameters> read_parameters(const BenchDlbsOptions& options, const job::Environment& environment) {
  if (options.config.empty()) return bench::DlbsParameters::make("", options.settings, environment);
  DT_TRY(const std::string text, read_file(options.config), "reading --config");
  DT_TRY(bench::DlbsParameters parameters, bench::DlbsParameters::make(text, options.settings, environment),
         "reading --config {}", options.config);
  return parameters;
}

// Each node checks by itself whether it has a token: without one, the nodes cannot connect and tell each other the
// reason.
Result<> check_token(const std::string& token, bool insecure, const bench::Rendezvous& rendezvous) {
  const std::string address = to_text(rendezvous.scheduler);
  if (job::check_token_policy(token, insecure, address)) return {};
  return fail(
      Code::kDenied,
      "the nodes connect to {}, which is not a loopback address, so they need a token. Give every node the same token "
      "with --token-file FILE or the environment variable DTRAIN_TOKEN, or allow nodes without a token with --insecure",
      address);
}

// Plans a benchmark. Returns an Error also if this node would not be able to meet the other nodes.
Result<Planned> plan_benchmark(const Call& call, const BenchDlbsOptions& options, bench::DlbsParameters parameters) {
  DT_TRY(bench::DlbsBenchmark benchmark, bench::dlbs_benchmark(parameters));
  Planned planned{std::move(parameters), std::move(benchmark)};
  planned.arguments = bench::training_flags_of(planned.benchmark, planned.parameters);
  planned.arguments.insert(planned.arguments.end(), options.job.begin(), options.job.end());
  DT_TRY(const job::Parsed parsed, job::parse_flags(planned.arguments, without_dmlc(call.environment)),
         "making the flags of the benchmark");
  planned.flags = parsed.flags;
  if (planned.flags.launch.run_dir.empty()) {
    const std::filesystem::path usual = job::default_run_dir(planned.flags, std::chrono::system_clock::now());
    planned.flags.launch.run_dir = role::unused_run_dir(fmt::format("{}/dlbs-{}-rank-{}", usual.parent_path().string(),
                                                                    usual.filename().string(), planned.benchmark.rank));
  }
  if (!planned.benchmark.distributed() || options.dry_run) return planned;
  if (planned.benchmark.rank == 0) DT_TRY_VOID(bench::check_owns_rendezvous(planned.benchmark.rendezvous));
  DT_TRY(const std::string token, job::token_of(planned.flags.launch));
  DT_TRY_VOID(check_token(token, planned.flags.launch.insecure, planned.benchmark.rendezvous));
  return planned;
}

// The processes that this node starts.
Result<JobToStart> processes_of(const Call& call, const Planned& planned) {
  const std::string address = to_text(planned.benchmark.rendezvous.scheduler);
  job::Flags flags = planned.flags;
  flags.launch.scheduler = address;
  std::vector<std::string> arguments = planned.arguments;
  arguments.insert(arguments.end(), {"--scheduler", address});
  const Call without{call.arguments, without_dmlc(call.environment), nullptr};
  DT_TRY(JobToStart job, job_to_start(without, {.arguments = std::move(arguments),
                                                .flags = flags,
                                                .places = {},
                                                .run_dir = flags.launch.run_dir,
                                                .only_rank = static_cast<int>(planned.benchmark.rank)}));
  job.processes.stopped_hint = "stopped; nothing was measured";
  return job;
}

// The text of --dry-run for a benchmark with a single process.
std::string one_process_text(const Planned& planned) {
  if (!planned.benchmark.infers) return proc::shell_line(planned.arguments) + "\n";
  const bench::BenchTrainOptions options = bench::inference_of(planned.benchmark);
  return fmt::format("inference on {} with batches of {}\n", options.network, options.batch_size);
}

Result<int> print_dry_run(const Call& call, const Planned& planned) {
  std::string text = bench::dlbs_header(planned.parameters) + "\n";
  if (planned.benchmark.distributed()) {
    DT_TRY(const JobToStart job, processes_of(call, planned));
    text += launch::dry_run_text(job.processes);
  } else {
    text += one_process_text(planned);
  }
  std::fputs(text.c_str(), stdout);
  return job::kExitOk;
}

// The outcome of a run: its exit code, and whether a failure is already in the log and need not be reported again.
struct Ran {
  int code = job::kExitOk;
  bool reported = false;
};

Result<Ran> run_processes(const Call& call, const Planned& planned, bench::DlbsLog& log) {
  DT_TRY(const role::RunDir run_dir, role::RunDir::claim(planned.flags, std::nullopt));
  DT_TRY(JobToStart job, processes_of(call, planned));
  const auto on_end = [&log](const launch::JobEnd& end) {
    if (end.exit_code == job::kExitOk) return;
    (void)log.write(bench::dlbs_failure(end.error.empty() ? "the benchmark was stopped" : end.error));
  };
  const auto make = [&](int64_t) -> Result<launch::Job> { return job.processes; };
  DT_TRY(const int code, run_job({.make = make}, planned.flags, run_dir, on_end));
  return Ran{code, true};
}

Result<Ran> train_here(const Planned& planned) {
  const SignalThread signals;
  DT_TRY(const int code, role::run_process(planned.flags, signals.signals()));
  return Ran{code, false};
}

Result<bench::DlbsTimes> infer_here(const Planned& planned) {
  bench::BenchTrainOptions options = bench::inference_of(planned.benchmark);
  const int64_t threads = planned.flags.launch.threads;
  options.threads = threads > 0 ? static_cast<int>(threads) : usable_cores();
  note_threads(options.threads);
  DT_TRY(const bench::BenchTrainResult result, bench::bench_train(options));
  return bench::dlbs_times_of(result);
}

// Runs the benchmark. Returns nullopt if it ended without results; `code` is then the exit code.
Result<std::optional<bench::DlbsTimes>> measure(const Call& call, const Planned& planned, bench::DlbsLog& log,
                                                int& code) {
  if (planned.benchmark.infers) return infer_here(planned);
  const bool several = planned.benchmark.distributed();
  DT_TRY(const Ran ran, several ? run_processes(call, planned, log) : train_here(planned));
  code = ran.code;
  if (code == job::kExitOk) return bench::read_dlbs_times(planned.flags.launch.run_dir, planned.benchmark.rank);
  if (!ran.reported) DT_TRY_VOID(log.write(bench::dlbs_failure("the benchmark was stopped")));
  return std::nullopt;
}

// Adds the parameters for the header of the log that are known before the benchmark runs.
void complete(Planned& planned) {
  const std::string version = fmt::format("dtrain {}", job::build_id());
  planned.parameters.set("exp.framework_ver", version);
  planned.parameters.set("mxnet.version", version);
  planned.parameters.set("exp.model_title", planned.benchmark.model.title);
  planned.parameters.set("mxnet.rank", planned.benchmark.rank);
  planned.parameters.set("mxnet.scheduler", planned.benchmark.rank == 0 && planned.benchmark.distributed());
  if (!planned.benchmark.infers) planned.parameters.set("dtrain.run_dir", planned.flags.launch.run_dir);
}

Result<int> run_benchmark(const Call& call, Planned planned) {
  complete(planned);
  DT_TRY(bench::DlbsLog log, bench::DlbsLog::create(planned.parameters.text("exp.log_file")));
  const auto now = [] { return bench::dlbs_clock(std::chrono::system_clock::now()); };
  DT_TRY_VOID(log.write(bench::dlbs_header(planned.parameters) + bench::dlbs_line("results.start_time", now()) +
                        bench::dlbs_line("results.proc_pid", ::getpid())));
  int code = job::kExitOk;
  Result<std::optional<bench::DlbsTimes>> times = measure(call, planned, log, code);
  const std::string end = bench::dlbs_line("results.end_time", now());
  if (!times) {
    if (times.error().code == Code::kDevice) {
      times.error().context.push_back(
          fmt::format("measuring on exp.gpus={} (--gpus \"\" measures the CPU)", planned.parameters.text("exp.gpus")));
    }
    DT_TRY_VOID(log.write(end + bench::dlbs_failure(times.error().text())));
    return tl::unexpected(std::move(times.error()));
  }
  DT_TRY_VOID(log.write(end + (*times ? bench::dlbs_results(**times) : "")));
  return code;
}

// The reason why the benchmark is not run; empty if it is run.
std::string why_skipped(const bench::DlbsParameters& parameters) {
  const std::string status = parameters.text("exp.status"), log = parameters.text("exp.log_file");
  if (status == "disabled" || status == "inactive") return fmt::format("exp.status is {}", status);
  const std::string rerun = parameters.text("exp.rerun");
  const Result<std::string> before = read_file(log);
  if (!before || rerun == "always" || (rerun == "onfail" && !bench::dlbs_succeeded(*before))) return "";
  return fmt::format("the log {} already exists, and exp.rerun is {}; to replace the log, give -Pexp.rerun=always", log,
                     rerun);
}

}  // namespace

Result<int> bench_dlbs(const Call& call) {
  DT_TRY(ToolLine<BenchDlbsOptions> line,
         read_tool_line(job::FlagTable<BenchDlbsOptions>(bench_dlbs_rows()), kBenchDlbsUsage, call, 0, 0));
  if (line.help) return job::kExitOk;
  DT_TRY(bench::DlbsParameters parameters, read_parameters(line.options, call.environment));
  for (const std::string& note : parameters.notes()) show_note(note);
  if (parameters.boolean("exp.docker")) {
    DT_TRY_VOID(bench::dlbs_benchmark(parameters));
    const std::string directory = std::filesystem::current_path().string();
    DT_TRY(const std::vector<std::string> command, bench::docker_command(parameters, directory));
    fmt::print("{}\n", proc::shell_line(command));
    return job::kExitOk;
  }
  const bool simulates = parameters.text("exp.status") == "simulate";
  line.options.dry_run = line.options.dry_run || simulates;
  DT_TRY(Planned planned, plan_benchmark(call, line.options, std::move(parameters)));
  if (line.options.dry_run) return print_dry_run(call, planned);
  const std::string why = why_skipped(planned.parameters);
  if (why.empty()) return run_benchmark(call, std::move(planned));
  show_note(fmt::format("the benchmark was not run: {}", why));
  return job::kExitOk;
}

}  // namespace dtrain::cmd
