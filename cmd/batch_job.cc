#include "batch_job.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/console.h"
#include "cluster/batch_follower.h"
#include "cluster/batch_job.h"
#include "cluster/cluster.h"
#include "cluster/slurm_job.h"
#include "job/process/exit_code.h"
#include "job/process/token.h"
#include "launch/foreground.h"
#include "notes.h"
#include "proc/this_host.h"
#include "role/process/run_dir.h"

namespace dtrain::cmd {

namespace {

namespace fs = std::filesystem;

Result<cluster::Submission> submission_of(const Call& call, const job::Flags& flags, const std::string& run_dir) {
  DT_TRY(const cluster::UserCommand command, command_of(call, flags));
  const std::string absolute = fs::absolute(run_dir).lexically_normal().string();
  return cluster::submission_of(command, absolute, fs::absolute(role::save_prefix(flags, absolute)));
}

// Makes the file readable only for the user, because flags such as --env may contain secrets.
Result<> write_script(const std::string& path, const std::string& text) {
  std::error_code error;
  std::ofstream file(path);
  fs::permissions(path, fs::perms::owner_all, error);
  if (file << text << std::flush; file && !error) return {};
  return fail(Code::kUsage, "cannot write the script '{}'", path);
}

// True if the job has written a file to the run directory, which contains only the script before the job starts.
bool has_left_files(const std::string& run_dir) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("slurm-") || name.starts_with("sge-") || name == role::kMetricsFile) return true;
  }
  return false;
}

}  // namespace

Result<cluster::UserCommand> command_of(const Call& call, const job::Flags& flags) {
  DT_TRY(std::string executable, proc::this_executable());
  return cluster::UserCommand{.executable = std::move(executable),
                              .arguments = call.arguments,
                              .flags = flags,
                              .environment = call.environment,
                              .directory = fs::current_path().string()};
}

Result<int> print_files(const Call& call, const job::Flags& flags) {
  const std::vector<std::string_view> named = job::split_list(flags.launch.launcher_argument);
  std::vector<std::string_view> asked = named;
  if (named.empty()) asked.assign(job::kBatchSystems.begin(), job::kBatchSystems.end());
  DT_TRY(const cluster::UserCommand command, command_of(call, flags));
  std::string text;
  for (const std::string_view system : asked) {
    const Result<std::string> file = cluster::batch_file(system, command);
    if (!file && !named.empty())
      return tl::unexpected(Error(file.error()).with(fmt::format("generating the file for {}", system)));
    if (asked.size() > 1) text += fmt::format("{}==== {} ====\n", text.empty() ? "" : "\n", system);
    if (!file) show_note(fmt::format("there is no file for {}: {}", system, file.error().message));
    text += file ? *file : fmt::format("(none: {})\n", file.error().message);
  }
  std::fputs(text.c_str(), stdout);
  return job::kExitOk;
}

Result<int> run_in_kubernetes(const Call& call, const job::Flags& flags) {
  DT_TRY(const cluster::UserCommand command, command_of(call, flags));
  DT_TRY(const cluster::KubernetesJob job, cluster::kubernetes_job(command, "-" + job::make_token().substr(0, 8)));
  if (flags.launch.dry_run) {
    std::fputs(job.manifests.c_str(), stdout);
    return job::kExitOk;
  }
  Console console = Console::to_stderr(flags.launch.terminal);
  return launch::run_in_background(
      console, [&](launch::Screen& screen) { return cluster::run_kubernetes_job(job, {}, screen); });
}

Result<int> submit_job(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed) {
  // Checks the flags before a directory is created.
  DT_TRY_VOID(submission_of(call, flags, role::choose_run_dir(flags, resumed)));
  DT_TRY(role::RunDir run_dir, role::RunDir::claim(flags, resumed));
  DT_TRY(const cluster::Submission submission, submission_of(call, flags, run_dir.path()));
  DT_TRY_VOID(write_script(submission.script_file, submission.script));
  // Releases the directory, so that the launcher in the job can claim it while this process waits for the end of the
  // job.
  run_dir.unlock();
  Console console = Console::to_stderr(flags.launch.terminal);
  Result<int> code = launch::run_in_background(
      console, [&](launch::Screen& screen) { return cluster::run_batch_job(*submission.system, {}, screen); });
  // As soon as the job has started, the run directory belongs to the launcher in the job and is kept.
  if ((code && *code == job::kExitOk) || has_left_files(run_dir.path())) {
    run_dir.keep();
  } else {
    std::error_code ignored;
    fs::remove(submission.script_file, ignored);
  }
  return code;
}

Result<Places> places_to_come(const job::Flags& flags) {
  DT_TRY(job::HostAssignment nodes, cluster::assign_to_unknown_nodes(flags));
  return Places{
      .hosts = std::move(nodes), .starter = cluster::usual_starter(flags.launch.launcher, false), .are_known = false};
}

Result<std::string> submission_text(const Call& call, const job::Flags& flags, const std::string& run_dir) {
  DT_TRY(const cluster::Submission submission, submission_of(call, flags, run_dir));
  return fmt::format("\ncommand that submits the job, for {}:\n{}\n\nthe script:\n{}",
                     cluster::asked_of(submission.request), proc::shell_line(submission.system->submit()),
                     submission.script);
}

}  // namespace dtrain::cmd
