#include "cluster/slurm_script.h"

#include <algorithm>
#include <utility>

#include "job/process/exit_code.h"
#include "launch/command.h"

namespace dtrain::cluster {
namespace {

constexpr const char* kHeader = R"(#!/bin/bash
# Trains with dtrain on the nodes that Slurm gives. Made by dtrain for sbatch, which reads the options below.
)";

// The part of the script after the definitions of cd, run_dir, checkpoints, command, at_first and at_restart.
constexpr const char* kBody = R"(
# Whether the run has a checkpoint; with a file as $1, whether it has one that is newer than the file.
has_checkpoint() {
  local file
  for file in "$checkpoints"-*.params; do
    if [ -e "$file" ] && { [ $# -eq 0 ] || [ "$file" -nt "$1" ]; }; then return 0; fi
  done
  return 1
}

if [ ! -x "${command[0]}" ]; then
  echo "error [start-up] $(hostname) has no executable '${command[0]}': all nodes must have it" >&2
  exit {startup}
fi
mkdir -p "$run_dir" || exit {startup}

flags=(--run-dir "$run_dir")
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
  flags+=("${at_first[@]}")
elif has_checkpoint; then # Slurm has started this job again
  flags+=(--resume "$run_dir")
else
  flags+=("${at_restart[@]}")
fi
state=$run_dir/slurm-$SLURM_JOB_ID.state
echo started >"$state"

# Slurm signals only this script (B: in the option --signal), which waits in the shell so that it can pass signals on.
# USR1 says that the time limit is near, INT that the launcher which submitted the job was stopped, and TERM that the
# job is cancelled.
pid='' limit='' cancelled=''
pass_on() {
  signaled=1
  if [ -n "$pid" ]; then kill -s "$1" "$pid" 2>/dev/null; fi
}
trap 'limit=1; pass_on USR1' USR1
trap 'pass_on USR2' USR2
trap 'cancelled=1; pass_on TERM' TERM INT
"${command[@]}" "${flags[@]}" </dev/null &
pid=$!
if [ -n "$cancelled" ]; then kill "$pid"; elif [ -n "$limit" ]; then kill -s USR1 "$pid"; fi
signaled=1 code=0
while [ -n "$signaled" ]; do
  signaled=''
  wait "$pid"
  code=$?
done

# The launcher was stopped with a checkpoint. Without a new one, the job would only be stopped again and again.
if [ "$code" -eq {stopped} ] && [ -n "$limit" ] && [ -z "$cancelled" ]; then
  if ! has_checkpoint "$state"; then
    echo "dtrain: the job is not queued again, because it wrote no checkpoint within its time limit" >&2
  elif scontrol requeue "$SLURM_JOB_ID"; then
    echo "dtrain: the job is queued again, and will continue from its checkpoint" >&2
    exit "$code"
  fi
fi
# After a failure that the launcher could not mend on these nodes, the job may get others.
if [ -z "$cancelled" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt {restarts} ] && [ -e "$run_dir/metrics.jsonl" ]; then
  case $code in
    {startup} | {scheduler_lost} | {peer_lost} | {device})
      if scontrol requeue "$SLURM_JOB_ID"; then
        echo "dtrain: the job is queued again, because it failed and --max-restarts allows it" >&2
        exit "$code"
      fi
      ;;
  esac
fi
echo "$code" >"$state"
exit "$code"
)";

// An option, quoted for a comment of the script.
std::string sbatch_line(const std::string& option) {
  std::string line = proc::shell_line({option});
  std::replace(line.begin(), line.end(), '\n', ' ');
  return "#SBATCH " + line + "\n";
}

std::vector<std::string> options_of(const BatchRequest& request, const std::string& output) {
  using std::chrono::ceil;
  constexpr int64_t kMiB = 1 << 20;
  std::vector<std::string> options = {"--job-name=" + request.name, fmt::format("--nodes={}", request.nodes)};
  if (!request.queue.empty()) options.push_back("--partition=" + request.queue);
  // If no number of cores is given, whole nodes are requested, because a job would otherwise get one core on each node.
  // With whole nodes it also gets all of their memory.
  if (request.node.cores > 0) options.push_back(fmt::format("--cpus-per-task={}", request.node.cores));
  if (request.node.cores == 0) options.emplace_back("--exclusive");
  if (request.node.memory > 0) {
    options.push_back(fmt::format("--mem={}M", (request.node.memory + kMiB - 1) / kMiB));
  } else if (request.node.cores == 0) {
    options.emplace_back("--mem=0");
  }
  if (request.node.gpus > 0) options.push_back(fmt::format("--gres=gpu:{}", request.node.gpus));
  if (request.time_limit.count() > 0) {
    options.push_back(fmt::format("--time={}", ceil<std::chrono::minutes>(request.time_limit).count()));
  }
  options.push_back(fmt::format("--signal=B:USR1@{}", request.stop_time.count()));
  options.insert(options.end(), {"--requeue", "--open-mode=append", "--output=" + output});
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

std::string definitions_of(const BatchRequest& request) {
  const std::string exit = fmt::format(" || exit {}\n", job::kExitStartup);
  std::string text = "\ncd " + proc::shell_line({request.directory}) + exit;
  const std::string number = "-\"$SLURM_JOB_ID\"";
  text += "run_dir=" +
          (request.run_dir.empty() ? "runs/" + proc::shell_line({request.network}) + number
                                   : proc::shell_line({request.run_dir})) +
          "\n";
  text += "checkpoints=" +
          (request.checkpoints.empty() ? "$run_dir/" + proc::shell_line({request.network})
                                       : proc::shell_line({request.checkpoints})) +
          "\n";
  text += "command=(" + proc::shell_line(request.command) + ")\n";
  text += "at_first=(" + proc::shell_line(request.at_first) + ")\n";
  // If the run was stopped before its first checkpoint, it starts from the beginning.
  std::vector<std::string> at_restart = request.at_first;
  const auto has = [&](const char* word) {
    return std::find(at_restart.begin(), at_restart.end(), word) != at_restart.end();
  };
  if (!has("--resume") && !has("--overwrite")) at_restart.emplace_back("--overwrite");
  return text + "at_restart=(" + proc::shell_line(at_restart) + ")\n";
}

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

std::string sbatch_script(const BatchRequest& request, const std::string& output) {
  std::string text = kHeader;
  for (const std::string& option : options_of(request, output)) text += sbatch_line(option);
  std::string body = kBody;
  for (const auto& [name, number] : {std::pair<const char*, int64_t>{"{startup}", job::kExitStartup},
                                     {"{stopped}", job::kExitPreempted},
                                     {"{scheduler_lost}", job::kExitSchedulerLost},
                                     {"{peer_lost}", job::kExitPeerLost},
                                     {"{device}", job::kExitDevice},
                                     {"{restarts}", request.restarts_max}}) {
    body = replaced(std::move(body), name, std::to_string(number));
  }
  return text + definitions_of(request) + body;
}

std::string state_file(const std::string& run_dir, const std::string& job) {
  return fmt::format("{}/slurm-{}.state", run_dir, job);
}

}  // namespace dtrain::cluster
