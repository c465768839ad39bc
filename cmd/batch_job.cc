#include "batch_job.h"

#include <filesystem>
#include <fstream>
#include <memory>

#include "base/console.h"
#include "cluster_files.h"
#include "job/process/exit_code.h"
#include "launch/cluster/batch_follower.h"
#include "launch/cluster/cluster.h"
#include "launch/cluster/sge.h"
#include "launch/cluster/sge_job.h"
#include "launch/cluster/slurm_job.h"
#include "launch/cluster/slurm_script.h"
#include "launch/foreground.h"
#include "launch/this_machine.h"
#include "role/process/run_dir.h"

namespace dtrain::cmd {

namespace {

namespace fs = std::filesystem;

struct Submission {
  launch::BatchRequest request;
  std::string script;  // its text
  std::string script_file;
  std::unique_ptr<launch::BatchSystem> system = {};
};

Result<Submission> sge_submission(const Call& call, const job::Flags& flags, const std::string& run_dir) {
  const std::string absolute = fs::absolute(run_dir).lexically_normal().string();
  DT_TRY(launch::SgeJob job, sge_job_of(call, flags, absolute));
  job.output_dir = absolute;
  Submission submission{
      .request = job.request, .script = launch::qsub_script(job), .script_file = absolute + "/sge.sh"};
  submission.system = launch::sge_batch(job, submission.script_file);
  return submission;
}

Result<Submission> submission_of(const Call& call, const job::Flags& flags, const std::string& run_dir) {
  if (flags.launch.launcher == "sge") return sge_submission(call, flags, run_dir);
  if (!flags.launch.hostfile.empty()) {
    return fail(Code::kUsage,
                "-H {}: outside of an allocation, Slurm chooses the nodes; --submit-option=--nodelist=NODES names them",
                flags.launch.hostfile);
  }
  DT_TRY(const std::string executable, launch::this_executable());
  const std::string absolute = fs::absolute(run_dir).lexically_normal().string();
  Submission submission{.request = {}, .script = {}, .script_file = absolute + "/slurm.sh"};
  DT_TRY(submission.request, launch::batch_request({.executable = executable,
                                                    .arguments = call.arguments,
                                                    .flags = flags,
                                                    .launcher = flags.launch.launcher,
                                                    .directory = fs::current_path().string(),
                                                    .run_dir = absolute,
                                                    .checkpoints = fs::absolute(role::save_prefix(flags, absolute))}));
  submission.script = launch::sbatch_script(submission.request, launch::output_pattern(absolute));
  submission.system = launch::slurm_batch(submission.request, {submission.script_file, absolute});
  return submission;
}

// Only the user may read it, because flags such as --env may hold secrets.
Result<> write_script(const std::string& path, const std::string& text) {
  std::error_code error;
  std::ofstream file(path);
  fs::permissions(path, fs::perms::owner_all, error);
  if (file << text << std::flush; file && !error) return {};
  return fail(Code::kUsage, "cannot write the script '{}'", path);
}

// Whether the job has left a file in the run directory. Before it runs, there is only the script.
bool has_left_files(const std::string& run_dir) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("slurm-") || name.starts_with("sge-") || name == role::kMetricsFile) return true;
  }
  return false;
}

}  // namespace

bool is_submitted(const Call& call, const job::Flags& flags) {
  if (flags.launch.launcher == "sge") return !launch::in_sge_array(call.environment);
  const bool is_inside = call.environment("SLURM_JOB_ID") && call.environment("SLURM_JOB_NODELIST");
  return flags.launch.launcher == "slurm" && !is_inside;
}

Result<int> submit_job(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed) {
  // What the flags get wrong is said before a directory is made.
  DT_TRY_VOID(submission_of(call, flags, role::choose_run_dir(flags, resumed)));
  DT_TRY(role::RunDir run_dir, role::RunDir::claim(flags, resumed));
  DT_TRY(const Submission submission, submission_of(call, flags, run_dir.path()));
  DT_TRY_VOID(write_script(submission.script_file, submission.script));
  run_dir.unlock();  // the launcher in the job claims the directory while this process waits for its end
  Console console = Console::to_stderr(flags.launch.terminal);
  Result<int> code = launch::run_in_background(
      console, [&](launch::Screen& screen) { return launch::run_batch_job(*submission.system, {}, screen); });
  // From its start on, the run directory belongs to the launcher in the job.
  if ((code && *code == job::kExitOk) || has_left_files(run_dir.path())) {
    run_dir.keep();
  } else {
    std::error_code ignored;
    fs::remove(submission.script_file, ignored);
  }
  return code;
}

Result<Places> places_to_come(const job::Flags& flags) {
  DT_TRY(job::HostAssignment nodes, launch::assign_to_unknown_nodes(flags));
  return Places{
      .hosts = std::move(nodes), .starter = launch::usual_starter(flags.launch.launcher, false), .are_known = false};
}

Result<std::string> submission_text(const Call& call, const job::Flags& flags, const std::string& run_dir) {
  DT_TRY(const Submission submission, submission_of(call, flags, run_dir));
  return fmt::format("\ncommand that submits the job, for {}:\n{}\n\nthe script:\n{}",
                     launch::asked_of(submission.request), launch::shell_line(submission.system->submit()),
                     submission.script);
}

}  // namespace dtrain::cmd
