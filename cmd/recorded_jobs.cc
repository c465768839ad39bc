#include "recorded_jobs.h"

#include "base/file.h"
#include "launch/make_job.h"
#include "proc/this_host.h"

namespace dtrain::cmd {

Result<HostsAnswers> ask_hosts(const HostsOptions& options, std::vector<std::string> arguments,
                               std::chrono::seconds limit) {
  HostsAnswers all;
  if (options.hostfile.empty()) return all;
  const Result<std::string> text = read_file(options.hostfile);
  if (!text) return fail(Code::kUsage, "-H: {}", text.error().message);
  DT_TRY(const job::HostFile file, job::parse_host_file(*text, options.hostfile));
  all.hosts = job::ssh_addresses(file);
  DT_TRY(const std::string executable, proc::this_executable());
  arguments.insert(arguments.begin(), launch::remote_executable(executable, options.sync_dst_dir));
  DT_TRY(all.answers, launch::ask_hosts(all.hosts, arguments, limit));
  return all;
}

}  // namespace dtrain::cmd
