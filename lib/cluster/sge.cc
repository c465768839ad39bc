#include "cluster/sge.h"

#include <algorithm>

#include "base/file.h"
#include "launch/call_back.h"

namespace dtrain::cluster {

bool in_sge_array(const job::Environment& environment) {
  const std::string task = environment("SGE_TASK_ID").value_or("");
  return environment("JOB_ID") && !task.empty() && task.find_first_not_of("0123456789") == std::string::npos;
}

Result<SgeTasks> sge_tasks(const job::Environment& environment, const std::string& run_dir) {
  if (!in_sge_array(environment)) {
    return fail(Code::kStartup,
                "this process does not run in a task of Grid Engine (JOB_ID and SGE_TASK_ID are not set)");
  }
  SgeTasks tasks{.job = environment("JOB_ID").value(), .hosts = {}, .names = {}};
  for (int64_t i = 1;; i++) {
    const Result<std::string> name = read_file(fmt::format("{}/sge-{}.tasks/{}", run_dir, tasks.job, i));
    if (!name) break;
    const std::string host = name->substr(0, name->find('\n'));
    const auto same = std::count(tasks.names.begin(), tasks.names.end(), host);
    tasks.hosts.push_back(same == 0 ? host : fmt::format("{}#{}", host, same + 1));
    tasks.names.push_back(host);
  }
  if (!tasks.hosts.empty()) return tasks;
  return fail(
      Code::kStartup,
      "the tasks of job {} have written no files to {}: submit the script that dtrain --launcher print=sge prints",
      tasks.job, run_dir);
}

launch::AgentStarter sge_starter(const std::string& run_dir, const std::string& job) {
  const std::string file = fmt::format("{}/sge-{}.launcher", run_dir, job);
  return {.tool = "Grid Engine",
          .allocation = {},
          .only_announces = true,
          .command = [file](const launch::AgentCommand& agents) {
            return launch::Command{.role = "sge", .arguments = launch::meeting_command(file, agents.arguments.back())};
          }};
}

}  // namespace dtrain::cluster
