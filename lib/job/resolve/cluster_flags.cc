#include "job/resolve/cluster_flags.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "job/flags/flags.h"

namespace dtrain::job {
namespace {

struct ForLaunchers {
  const char* flag;
  std::vector<std::string> launchers;  // the launchers that use the flag; --launcher print accepts it too
};

std::vector<ForLaunchers> rules() {
  const std::vector<std::string> all(kBatchSystems.begin(), kBatchSystems.end());
  return {{"nodes", all},
          {"jobname", all},
          {"time-limit", all},
          {"worker-cores", all},
          {"server-cores", all},
          {"worker-memory", all},
          {"server-memory", all},
          {"queue", {"slurm", "sge", "yarn"}},
          {"submit-option", {"slurm", "sge"}},
          {"image", {"yarn", "kubernetes"}},
          {"volume", {"kubernetes"}},
          {"max-restarts", {"local", "ssh", "mpi", "slurm"}},
          {"state-dir", {"local", "ssh", "mpi", "slurm"}}};
}

// Refuses flags about hosts for launchers with which the cluster chooses the hosts.
Result<> check_hosts(const LaunchFlags& launch) {
  if (launch.launcher != "sge" && launch.launcher != "yarn" && launch.launcher != "kubernetes" &&
      launch.launcher != "print")
    return {};
  if (!launch.hostfile.empty())
    return fail(Code::kUsage, "-H {}: with --launcher {} the cluster chooses the hosts; leave out -H", launch.hostfile,
                launch.launcher);
  if (!launch.sync_dst_dir.empty()) {
    return fail(Code::kUsage,
                "--sync-dst-dir: with --launcher {} the hosts are not known before the job runs: start dtrain in a "
                "directory that all hosts share, or put the files that the job needs into the image",
                launch.launcher);
  }
  return {};
}

}  // namespace

Result<> check_cluster_flags(const Flags& flags) {
  const LaunchFlags& launch = flags.launch;
  if (launch.role != Role::kNone) return {};
  for (const ForLaunchers& rule : rules()) {
    // Flags in a --config file are not refused, because the file may serve several launchers.
    if (flags.source(rule.flag) != Source::kCommandLine || launch.launcher == "print") continue;
    if (std::find(rule.launchers.begin(), rule.launchers.end(), launch.launcher) != rule.launchers.end()) continue;
    std::vector<std::string> names = rule.launchers;
    names.emplace_back("print");
    return fail(Code::kUsage, "--{} has no effect with --launcher {}; it is for {}", rule.flag, launch.launcher,
                fmt::join(names, ", "));
  }
  if (launch.max_restarts > 0 && !flags.distributed()) {
    return fail(
        Code::kUsage,
        "--max-restarts: this command trains in one process, without a launcher that could start it again; with "
        "-n 1 -s 0 it starts one");
  }
  if (!launch.state_dir.empty() && launch.max_restarts == 0) {
    return fail(Code::kUsage,
                "--state-dir: the launcher starts a scheduler that was killed again only with --max-restarts N");
  }
  DT_TRY_VOID(check_hosts(launch));
  if (launch.launcher == "yarn" && launch.launcher_argument.empty()) {
    return fail(Code::kUsage,
                "--launcher yarn: the address of the resource manager's web services is missing (--launcher "
                "yarn=http://HOST:8088)");
  }
  if (launch.launcher == "kubernetes" && flags.batch.image.empty())
    return fail(Code::kUsage,
                "--launcher kubernetes: the container image that contains dtrain is missing (--image IMAGE)");
  return {};
}

}  // namespace dtrain::job
