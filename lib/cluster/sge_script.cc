#include "cluster/sge_script.h"

#include <algorithm>

#include "job/process/exit_code.h"
#include "launch/command.h"

namespace dtrain::cluster {
namespace {

constexpr const char* kSgeHeader = R"(#!/bin/bash
# Trains with dtrain on the hosts that Grid Engine gives. Made by dtrain for qsub, which reads the options below.
)";

// The part of the script after the definitions of run_dir, command and flags.
constexpr const char* kBegin = R"(
if [ ! -x "${command[0]}" ]; then
  echo "error [start-up] $(hostname) has no executable '${command[0]}': all hosts must have it" >&2
  exit {startup}
fi
mkdir -p "$run_dir" || exit {startup}
files=$run_dir/sge-$JOB_ID
)";

// Runs the launcher in task 1 when all tasks have started, however long some of them are queued.
constexpr const char* kMeet = R"(
agent() {
  trap '' USR1 USR2 # which Grid Engine sends to all processes of a task
  exec "${command[0]}" launch-agent --meet "$files.launcher" --number $((SGE_TASK_ID - 1))
}

mkdir -p "$files.tasks" && hostname >"$files.tasks/.$SGE_TASK_ID" || exit {startup}
mv "$files.tasks/.$SGE_TASK_ID" "$files.tasks/$SGE_TASK_ID" || exit {startup}
if [ "$SGE_TASK_ID" -ne 1 ]; then
  until [ -e "$files.launcher" ]; do
    if [ -e "$files.code" ]; then exit 0; fi # the launcher has ended without it
    sleep 1
  done
  agent
fi
said=''
while :; do
  missing=''
  for ((task = 1; task <= tasks; task++)); do
    if [ ! -e "$files.tasks/$task" ]; then missing+=" $task"; fi
  done
  if [ -z "$missing" ]; then break; fi
  if [ "$missing" != "$said" ]; then echo "dtrain: waiting for tasks$missing of job $JOB_ID to start" >&2; fi
  said=$missing
  sleep 1
done
(
  until [ -e "$files.launcher" ]; do
    if [ -e "$files.code" ]; then exit 0; fi
    sleep 1
  done
  agent
) &
)";

constexpr const char* kRun = R"(
# Grid Engine sends USR1 when the time limit is near, and USR2 before it kills the job. The launcher gets TERM instead,
# and nothing of what Grid Engine sends to all processes.
(
  trap '' USR1 USR2
  exec "${command[@]}" "${flags[@]}" </dev/null
) &
pid=$!
trap 'kill -s TERM "$pid" 2>/dev/null' USR1 USR2 TERM
while kill -0 "$pid" 2>/dev/null; do
  if [ -s "$files.signal" ]; then
    read -r signal <"$files.signal"
    kill -s "$signal" "$pid"
    rm -f "$files.signal"
  fi
  sleep 1 &
  wait $!
done
wait "$pid"
code=$?
echo "$code" >"$files.new" && mv "$files.new" "$files.code"
)";

constexpr const char* kEndOfArray = R"(wait
rm -rf "$files.tasks" "$files.launcher"
exit "$code"
)";

constexpr const char* kEnd = R"(exit "$code"
)";

std::string with_code(std::string text) {
  constexpr std::string_view kStartupCode = "{startup}";
  for (size_t at = 0; (at = text.find(kStartupCode)) != std::string::npos;) {
    text.replace(at, kStartupCode.size(), std::to_string(job::kExitStartup));
  }
  return text;
}

bool is_array(const SgeJob& job) {
  return job.parallel_environment.empty();
}

int64_t slots_of(const SgeJob& job) {
  const BatchRequest& request = job.request;
  return request.node.cores > 0 ? request.nodes * request.node.cores : job.processes;
}

// The memory per slot, because SGE requests memory per slot.
int64_t memory_of_slot(const SgeJob& job) {
  constexpr int64_t kMiB = 1 << 20;
  const int64_t slots = is_array(job) ? 1 : slots_of(job);
  const int64_t bytes = is_array(job) ? job.request.node.memory : job.request.node.memory * job.request.nodes;
  return (bytes + slots * kMiB - 1) / (slots * kMiB);
}

std::vector<std::string> qsub_options(const SgeJob& job) {
  const BatchRequest& request = job.request;
  std::vector<std::string> options = {"-S /bin/bash", "-N " + request.name, "-j y", "-notify", "-r n"};
  const std::string output = sge_output_file(job, "$JOB_ID");
  options.push_back(output.find(' ') == std::string::npos ? "-o " + output : "-o \"" + output + "\"");
  if (is_array(job)) options.push_back(fmt::format("-t 1-{}", request.nodes));
  if (!is_array(job)) options.push_back(fmt::format("-pe {} {}", job.parallel_environment, slots_of(job)));
  if (!request.queue.empty()) options.push_back("-q " + request.queue);
  if (request.node.memory > 0) options.push_back(fmt::format("-l h_vmem={}M", memory_of_slot(job)));
  if (request.time_limit.count() > 0) {
    options.push_back(fmt::format("-l h_rt={},s_rt={}", request.time_limit.count(),
                                  (request.time_limit - request.stop_time).count()));
  }
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

std::string sge_definitions(const SgeJob& job) {
  const BatchRequest& request = job.request;
  std::string text = fmt::format("\ncd {} || exit {}\n", proc::shell_line({request.directory}), job::kExitStartup);
  text += "run_dir=" +
          (request.run_dir.empty() ? "$PWD/runs/" + proc::shell_line({request.network}) + "-\"$JOB_ID\""
                                   : proc::shell_line({request.run_dir})) +
          "\n";
  text += "command=(" + proc::shell_line(request.command) + ")\n";
  const std::string first = proc::shell_line(request.at_first);
  text += "flags=(--run-dir \"$run_dir\"" + (first.empty() ? "" : " " + first) + ")\n";
  if (is_array(job)) text += fmt::format("tasks={}\n", request.nodes);
  return text;
}

std::string sge_file(const SgeJob& job, const std::string& number, const char* ending) {
  return fmt::format("{}/sge-{}.{}", job.request.run_dir, number, ending);
}

}  // namespace

Result<> check_sge_job(const SgeJob& job) {
  if (!is_array(job) || job.request.node.cores == 0) return {};
  return fail(Code::kUsage,
              "--worker-cores and --server-cores: SGE counts cores as slots of a parallel environment: name a parallel "
              "environment with --launcher sge=NAME (qconf -spl lists them)");
}

std::string qsub_script(const SgeJob& job) {
  std::string text = kSgeHeader;
  for (std::string option : qsub_options(job)) {
    std::replace(option.begin(), option.end(), '\n', ' ');
    text += "#$ " + option + "\n";
  }
  text += sge_definitions(job) + kBegin;
  text += is_array(job) ? std::string(kMeet) + kRun + kEndOfArray : std::string(kRun) + kEnd;
  return with_code(std::move(text));
}

std::string sge_output_file(const SgeJob& job, const std::string& number) {
  const bool is_pattern = number.starts_with('$');
  const std::string task = !is_array(job) ? "" : is_pattern ? ".$TASK_ID" : ".1";
  return fmt::format("{}/sge-{}{}.out", job.output_dir, number, task);
}

std::string sge_code_file(const SgeJob& job, const std::string& number) {
  return sge_file(job, number, "code");
}

std::string sge_signal_file(const SgeJob& job, const std::string& number) {
  return sge_file(job, number, "signal");
}

}  // namespace dtrain::cluster
