#include "cluster/node_script.h"

#include "cluster/batch_request.h"
#include "job/flags/flags.h"
#include "job/process/exit_code.h"
#include "job/process/scheduler_lines.h"
#include "launch/command.h"

namespace dtrain::cluster {
namespace {

constexpr const char* kNodeBody = R"(
# The name of the scheduler's host becomes known when it has started.
tries=0
until [ "$node" -eq 0 ] || getent hosts "$scheduler" >/dev/null; do
  tries=$((tries + 1))
  if [ "$tries" -gt 300 ]; then
    echo "error [start-up] node $node: the name $scheduler of the scheduler's host cannot be resolved after 300 s" >&2
    exit {startup}
  fi
  sleep 1
done

pids=''
trap 'kill -s TERM $pids 2>/dev/null' TERM INT
if [ "$node" -eq 0 ]; then
  as_scheduler process scheduler --bind 0.0.0.0 --port {port} --advertise "$scheduler" &
  pids="$pids $!"
fi
rank=$node
while [ "$rank" -lt {servers} ]; do
  as_server process server --rank "$rank" --scheduler "$scheduler:{port}"{own} &
  pids="$pids $!"
  rank=$((rank + {nodes}))
done
rank=$node
while [ "$rank" -lt {workers} ]; do
  as_worker process worker --rank "$rank" --scheduler "$scheduler:{port}"{own} &
  pids="$pids $!"
  rank=$((rank + {nodes}))
done

code=0
for pid in $pids; do
  wait "$pid"
  ended=$?
  while kill -0 "$pid" 2>/dev/null; do # a signal has interrupted the wait
    wait "$pid"
    ended=$?
  done
  if [ "$code" -eq 0 ]; then code=$ended; fi
done
exit "$code"
)";

// A shell function that sets variables for the command in its arguments.
std::string function_with(const std::string& name, const std::vector<std::string>& variables) {
  return name + "() {\n  " + (variables.empty() ? "" : "export " + proc::shell_line(variables) + "\n  ") +
         "\"$@\"\n}\n";
}

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

}  // namespace

std::string node_script(const NodeScript& node) {
  std::string own;
  for (const std::string& word : node.own) own += " " + word;
  std::string text = "node=" + node.number + "\nscheduler=\"" + node.scheduler + "\"\nrun_dir=" + node.run_dir + "\n";
  const std::string startup = std::to_string(job::kExitStartup);
  if (!node.directory.empty()) text += "cd " + proc::shell_line({node.directory}) + " || exit " + startup + "\n";
  if (!node.exports.empty()) text += "export " + proc::shell_line(node.exports) + "\n";
  text += "\n# process ROLE FLAG...: runs one process of the job.\n";
  std::vector<std::string> flags(node.command.begin() + 1, node.command.end());
  const std::string given = proc::shell_line(flags);
  text +=
      fmt::format("process() {{\n  role=$1\n  shift\n  exec {}{} --run-dir \"$run_dir\" --role \"$role\" \"$@\"\n}}\n",
                  proc::shell_line({node.command.front()}), given.empty() ? "" : " " + given);
  text += function_with("as_scheduler", {fmt::format("{}=1", job::kLauncherVariable)});
  text += function_with("as_server", node.server_exports) + function_with("as_worker", node.worker_exports);
  return text + filled(kNodeBody, {{"{startup}", startup},
                                   {"{port}", std::to_string(kSchedulerPort)},
                                   {"{servers}", std::to_string(node.servers)},
                                   {"{workers}", std::to_string(node.workers)},
                                   {"{nodes}", std::to_string(node.nodes)},
                                   {"{own}", own}});
}

std::vector<std::string> process_flags(const std::vector<std::string>& arguments) {
  const std::vector<std::string> of_launcher = {"dry-run",    "launcher",   "hostfile",  "host-order",   "env",
                                                "env-server", "env-worker", "env-file",  "sync-dst-dir", "exclude",
                                                "token-file", "run-dir",    "overwrite", "stop-timeout", "port",
                                                "port-range", "advertise",  "bind"};
  return job::without_flags(job::without_flags(arguments, of_launcher), batch_flags());
}

}  // namespace dtrain::cluster
