#include "cluster/batch_job.h"

#include <filesystem>
#include <utility>

#include "cluster/kubernetes_files.h"
#include "cluster/sge.h"
#include "cluster/sge_job.h"
#include "cluster/sge_script.h"
#include "cluster/slurm_job.h"
#include "cluster/slurm_script.h"
#include "cluster/yarn.h"
#include "cluster/yarn_spec.h"
#include "job/flags/flags.h"
#include "job/process/token.h"
#include "launch/make_job.h"

namespace dtrain::cluster {

namespace {

namespace fs = std::filesystem;

std::string absolute_in(const std::string& directory, const std::string& path) {
  return path.empty() ? path : (fs::path(directory) / path).lexically_normal().string();
}

Result<BatchRequest> request_of(const UserCommand& command, const std::string& launcher) {
  const job::Flags& flags = command.flags;
  const std::string& save = flags.loop.save_model_prefix;
  return batch_request(command,
                       {.launcher = launcher,
                        .run_dir = absolute_in(command.directory, flags.launch.run_dir),
                        .checkpoints = absolute_in(command.directory, save.empty() ? flags.loop.model_prefix : save)});
}

// The token for processes that have no launcher.
Result<std::string> token_for(const job::Flags& flags) {
  DT_TRY(std::string token, job::token_of(flags.launch));
  return token.empty() ? job::make_token() : token;
}

// Without --worker-cores and --server-cores, whole nodes are requested from Slurm, with all of their GPUs. With them,
// the user's own options may request GPUs.
Result<> check_slurm_gpus(const job::Flags& flags) {
  const job::BatchFlags& batch = flags.batch;
  const bool whole_nodes = batch.worker_cores == 0 && batch.server_cores == 0;
  return check_all_gpus(flags, "Slurm, with --worker-cores or --server-cores,",
                        whole_nodes || !batch.submit_options.empty());
}

Result<std::string> slurm_file(const UserCommand& command) {
  DT_TRY_VOID(check_slurm_gpus(command.flags));
  DT_TRY(const BatchRequest request, request_of(command, "slurm"));
  // The output is not written to the run directory, which may not exist when the script is submitted.
  return sbatch_script(request, request.directory + "/slurm-%j.out");
}

// `run_dir`: absolute, or empty if the job is to create one.
Result<SgeJob> sge_job_of(const UserCommand& command, const std::string& run_dir) {
  const job::Flags& flags = command.flags;
  DT_TRY_VOID(check_no_restarts(flags, "Grid Engine"));
  const std::string environment = flags.launch.launcher == "sge" ? flags.launch.launcher_argument : "";
  UserCommand inner = command;
  // The launcher in the job must not make requests to a batch system again.
  inner.arguments = job::without_flags(command.arguments, batch_flags());
  DT_TRY(BatchRequest request, request_of(inner, environment.empty() ? "sge" : ""));
  request.run_dir = run_dir;
  SgeJob job{.request = std::move(request),
             .parallel_environment = environment,
             .processes = flags.job.num_servers + flags.job.num_workers,
             .output_dir = command.directory};
  DT_TRY_VOID(check_sge_job(job));
  return job;
}

Result<std::string> sge_file(const UserCommand& command) {
  DT_TRY(const SgeJob job, sge_job_of(command, absolute_in(command.directory, command.flags.launch.run_dir)));
  return qsub_script(job);
}

Result<std::string> yarn_file(const UserCommand& command) {
  DT_TRY_VOID(check_all_gpus(command.flags, "YARN"));
  DT_TRY_VOID(check_no_restarts(command.flags, "YARN"));
  DT_TRY(const BatchRequest request, request_of(command, ""));
  DT_TRY(const std::string token, token_for(command.flags));
  DT_TRY(const launch::Variables exports, launch::variables_of(command.flags.launch, command.environment));
  const std::string name = dns_label(request.name);
  NodeScript node{.nodes = request.nodes,
                  .servers = command.flags.job.num_servers,
                  .workers = command.flags.job.num_workers,
                  .number = kYarnNumber,
                  .scheduler = kYarnFirstHost,
                  .directory = command.flags.batch.image.empty() ? request.directory : "",
                  .run_dir = proc::shell_line(
                      {command.flags.launch.run_dir.empty() ? "runs/" + name : command.flags.launch.run_dir}),
                  .command = {command.flags.batch.image.empty() ? request.command.front() : "dtrain"},
                  .exports = exports.scheduler,
                  .server_exports = exports.server,
                  .worker_exports = exports.worker};
  for (std::string& word : process_flags(command.arguments)) node.command.push_back(std::move(word));
  return yarn_spec({.name = name,
                    .queue = request.queue,
                    .containers = request.nodes,
                    .container = request.node,
                    .lifetime = request.time_limit,
                    .image = command.flags.batch.image,
                    .script = node_script(node),
                    .environment = {"DTRAIN_TOKEN=" + token}});
}

Result<Submission> sge_submission(const UserCommand& command, const std::string& run_dir) {
  DT_TRY(SgeJob job, sge_job_of(command, run_dir));
  job.output_dir = run_dir;
  Submission submission{.request = job.request, .script = qsub_script(job), .script_file = run_dir + "/sge.sh"};
  submission.system = sge_batch(job, submission.script_file);
  return submission;
}

}  // namespace

Result<std::string> batch_file(std::string_view system, const UserCommand& command) {
  if (system == "slurm") return slurm_file(command);
  if (system == "sge") return sge_file(command);
  if (system == "yarn") return yarn_file(command);
  DT_TRY(const KubernetesJob job, kubernetes_job(command, ""));
  return job.manifests;
}

Result<KubernetesJob> kubernetes_job(const UserCommand& command, const std::string& suffix) {
  DT_TRY_VOID(check_all_gpus(command.flags, "Kubernetes"));
  DT_TRY_VOID(check_no_restarts(command.flags, "Kubernetes"));
  DT_TRY(const BatchRequest request, request_of(command, ""));
  DT_TRY(const std::string token, token_for(command.flags));
  DT_TRY(const launch::Variables exports, launch::variables_of(command.flags.launch, command.environment));
  const bool is_named = !command.flags.batch.job_name.empty();
  const std::string name = is_named ? request.name : dns_label(request.name) + suffix;
  KubernetesJob job{.name = name, .manifests = {}, .pods = request.nodes};
  DT_TRY(job.manifests, kubernetes_manifests({.name = name,
                                              .token = token,
                                              .flags = command.flags,
                                              .pod = request.node,
                                              .stop_time = request.stop_time,
                                              .arguments = command.arguments,
                                              .network = request.network,
                                              .exports = exports.scheduler,
                                              .server_exports = exports.server,
                                              .worker_exports = exports.worker}));
  return job;
}

bool is_submitted(const job::Flags& flags, const job::Environment& environment) {
  if (flags.launch.launcher == "sge") return !in_sge_array(environment);
  const bool is_inside = environment("SLURM_JOB_ID") && environment("SLURM_JOB_NODELIST");
  return flags.launch.launcher == "slurm" && !is_inside;
}

Result<Submission> submission_of(const UserCommand& command, const std::string& run_dir,
                                 const std::string& checkpoints) {
  const std::string& launcher = command.flags.launch.launcher;
  if (launcher == "sge") return sge_submission(command, run_dir);
  if (!command.flags.launch.hostfile.empty()) {
    return fail(Code::kUsage,
                "-H {}: outside an allocation, Slurm chooses the nodes; to choose them yourself, give "
                "--submit-option=--nodelist=NODES",
                command.flags.launch.hostfile);
  }
  DT_TRY_VOID(check_slurm_gpus(command.flags));
  Submission submission{.request = {}, .script = {}, .script_file = run_dir + "/slurm.sh"};
  DT_TRY(submission.request,
         batch_request(command, {.launcher = launcher, .run_dir = run_dir, .checkpoints = checkpoints}));
  submission.script = sbatch_script(submission.request, output_pattern(run_dir));
  submission.system = slurm_batch(submission.request, {submission.script_file, run_dir});
  return submission;
}

}  // namespace dtrain::cluster
