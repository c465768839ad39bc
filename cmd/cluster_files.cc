#include "cluster_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/console.h"
#include "job/flags/flags.h"
#include "job/process/exit_code.h"
#include "job/process/process_environment.h"
#include "job/process/token.h"
#include "launch/call_back.h"
#include "launch/cluster/kubernetes.h"
#include "launch/cluster/kubernetes_files.h"
#include "launch/cluster/sge_script.h"
#include "launch/cluster/slurm_script.h"
#include "launch/cluster/yarn.h"
#include "launch/cluster/yarn_spec.h"
#include "launch/foreground.h"
#include "launch/this_machine.h"
#include "notes.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

using Words = std::vector<std::string>;
namespace fs = std::filesystem;

const Words& systems() {
  static const Words all = {"slurm", "sge", "yarn", "kubernetes"};
  return all;
}

std::string absolute_or_empty(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

Result<launch::BatchRequest> request_of(const Call& call, const job::Flags& flags, const std::string& launcher) {
  DT_TRY(const std::string executable, launch::this_executable());
  const std::string& save = flags.loop.save_model_prefix;
  return launch::batch_request({.executable = executable,
                                .arguments = call.arguments,
                                .flags = flags,
                                .launcher = launcher,
                                .directory = fs::current_path().string(),
                                .run_dir = absolute_or_empty(flags.launch.run_dir),
                                .checkpoints = absolute_or_empty(save.empty() ? flags.loop.model_prefix : save)});
}

// The token that processes without a launcher share.
Result<std::string> token_for(const job::Flags& flags) {
  DT_TRY(std::string token, job::token_of(flags.launch));
  return token.empty() ? job::make_token() : token;
}

struct Exports {
  Words all, server, worker;
};
Result<Exports> exports_of(const Call& call, const job::Flags& flags) {
  Exports exports;
  DT_TRY(exports.all, job::process_environment(flags.launch, job::Role::kScheduler, call.environment));
  DT_TRY(exports.server, job::process_environment(flags.launch, job::Role::kServer, call.environment));
  DT_TRY(exports.worker, job::process_environment(flags.launch, job::Role::kWorker, call.environment));
  return exports;
}

Result<std::string> slurm_file(const Call& call, const job::Flags& flags) {
  DT_TRY(const launch::BatchRequest request, request_of(call, flags, "slurm"));
  // The run directory may not exist when the script is submitted.
  return launch::sbatch_script(request, request.directory + "/slurm-%j.out");
}

Result<std::string> sge_file(const Call& call, const job::Flags& flags) {
  DT_TRY(const launch::SgeJob job, sge_job_of(call, flags, absolute_or_empty(flags.launch.run_dir)));
  return launch::qsub_script(job);
}

Result<std::string> yarn_file(const Call& call, const job::Flags& flags) {
  DT_TRY(const launch::BatchRequest request, request_of(call, flags, ""));
  DT_TRY(const std::string token, token_for(flags));
  DT_TRY(const Exports exports, exports_of(call, flags));
  const std::string name = launch::dns_label(request.name);
  launch::NodeScript node{
      .nodes = request.nodes,
      .servers = flags.job.num_servers,
      .workers = flags.job.num_workers,
      .number = launch::kYarnNumber,
      .scheduler = launch::kYarnFirstHost,
      .directory = flags.batch.image.empty() ? request.directory : "",
      .run_dir = launch::shell_line({flags.launch.run_dir.empty() ? "runs/" + name : flags.launch.run_dir}),
      .command = {flags.batch.image.empty() ? request.command.front() : "dtrain"},
      .exports = exports.all,
      .server_exports = exports.server,
      .worker_exports = exports.worker};
  for (std::string& word : launch::process_flags(call.arguments)) node.command.push_back(std::move(word));
  return launch::yarn_spec({.name = name,
                            .queue = request.queue,
                            .containers = request.nodes,
                            .container = request.node,
                            .lifetime = request.time_limit,
                            .image = flags.batch.image,
                            .script = launch::node_script(node),
                            .environment = {"DTRAIN_TOKEN=" + token}});
}

// `suffix`: makes the names of two jobs differ; empty: none.
Result<launch::KubernetesJob> kubernetes_job(const Call& call, const job::Flags& flags, const std::string& suffix) {
  DT_TRY(const launch::BatchRequest request, request_of(call, flags, ""));
  DT_TRY(const std::string token, token_for(flags));
  DT_TRY(const Exports exports, exports_of(call, flags));
  const bool is_named = !flags.batch.job_name.empty();
  const std::string name = is_named ? request.name : launch::dns_label(request.name) + suffix;
  launch::KubernetesJob job{.name = name,
                            .name_space = flags.batch.name_space,
                            .manifests = {},
                            .pods = request.nodes,
                            .all_logs = flags.launch.all_logs};
  DT_TRY(job.manifests, launch::kubernetes_manifests({.name = name,
                                                      .token = token,
                                                      .flags = flags,
                                                      .pod = request.node,
                                                      .stop_time = request.stop_time,
                                                      .arguments = call.arguments,
                                                      .network = request.network,
                                                      .exports = exports.all,
                                                      .server_exports = exports.server,
                                                      .worker_exports = exports.worker}));
  return job;
}

}  // namespace

Result<std::string> cluster_file(const std::string& system, const Call& call, const job::Flags& flags) {
  if (system == "slurm") return slurm_file(call, flags);
  if (system == "sge") return sge_file(call, flags);
  if (system == "yarn") return yarn_file(call, flags);
  DT_TRY(const launch::KubernetesJob job, kubernetes_job(call, flags, ""));
  return job.manifests;
}

namespace {

struct ServiceOptions {
  std::string url, name;
};

}  // namespace

Result<launch::SgeJob> sge_job_of(const Call& call, const job::Flags& flags, const std::string& run_dir) {
  const bool is_array = flags.batch.parallel_environment.empty();
  Call inner = call;
  // The launcher in the job asks for nothing more.
  inner.arguments = job::without_flags(call.arguments, launch::batch_flags());
  DT_TRY(launch::BatchRequest request, request_of(inner, flags, is_array ? "sge" : ""));
  request.run_dir = run_dir;
  launch::SgeJob job{.request = std::move(request),
                     .parallel_environment = flags.batch.parallel_environment,
                     .processes = flags.job.num_servers + flags.job.num_workers,
                     .output_dir = fs::current_path().string()};
  DT_TRY_VOID(launch::check_sge_job(job));
  return job;
}

Result<int> print_files(const Call& call, const job::Flags& flags) {
  const Words& asked = flags.batch.print_for.empty() ? systems() : flags.batch.print_for;
  std::string text;
  for (const std::string& system : asked) {
    const Result<std::string> file = cluster_file(system, call, flags);
    if (!file && !flags.batch.print_for.empty())
      return tl::unexpected(Error(file.error()).with("printing the file for " + system));
    if (asked.size() > 1) text += fmt::format("{}==== {} ====\n", text.empty() ? "" : "\n", system);
    if (!file) show_note(fmt::format("no file for {}: {}", system, file.error().message));
    text += file ? *file : fmt::format("(none: {})\n", file.error().message);
  }
  std::fputs(text.c_str(), stdout);
  return job::kExitOk;
}

Result<int> run_in_kubernetes(const Call& call, const job::Flags& flags) {
  DT_TRY(const launch::KubernetesJob job, kubernetes_job(call, flags, "-" + job::make_token().substr(0, 8)));
  if (flags.launch.dry_run) {
    std::fputs(job.manifests.c_str(), stdout);
    return job::kExitOk;
  }
  Console console = Console::to_stderr(flags.launch.terminal);
  return launch::run_in_background(console,
                                   [&](launch::Screen& screen) { return launch::run_kubernetes_job(job, {}, screen); });
}

Result<int> launch_service(const Call& call) {
  const job::FlagTable<ServiceOptions> table({{.name = "url",
                                               .value = "URL",
                                               .help = "address of YARN's web services",
                                               .bind = DT_FIELD(ServiceOptions, url, "none")},
                                              {.name = "name",
                                               .value = "NAME",
                                               .help = "name of the service",
                                               .bind = DT_FIELD(ServiceOptions, name, "none")}});
  const std::string usage = "dtrain launch-service [FLAGS]\nFollows a service of YARN. The launcher starts it.";
  DT_TRY(const ToolLine<ServiceOptions> line, read_tool_line(table, usage, call, 0, 0));
  if (line.help) return job::kExitOk;
  DT_TRY(launch::YarnUrl url, launch::parse_yarn_url(line.options.url, ""));
  url.ca_file = call.environment("SSL_CERT_FILE").value_or("");
  const std::string key = call.environment(launch::kAgentKey).value_or("");
  std::string spec = call.environment(launch::kYarnSpec).value_or("");
  const std::string placeholder = fmt::format("@{}@", launch::kAgentKey);
  if (const size_t at = spec.find(placeholder); at != std::string::npos) spec.replace(at, placeholder.size(), key);
  DT_TRY_VOID(launch::follow_yarn_service(url, line.options.name, spec));
  return job::kExitOk;
}

}  // namespace dtrain::cmd
