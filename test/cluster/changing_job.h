// Jobs whose workers change while they run: workers are lost, leave or join.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

inline constexpr double kRunSeconds = 240;
inline constexpr uint64_t kWorkers = 3;  // that each job starts with, in addition to two servers

class ChangingJobs {
 public:
  // `policy`: the value of --on-worker-loss. `kind`: further flags of all jobs.
  ChangingJobs(std::string policy, std::vector<std::string> kind);

  [[nodiscard]] std::vector<std::string> command(const std::string& run_dir,
                                                 const std::vector<std::string>& more) const;
  [[nodiscard]] Ended run(const std::string& run_dir, const std::vector<std::string>& more) const;
  // Runs `dtrain COMMAND ARGUMENTS` in the jobs' directory.
  [[nodiscard]] Ended ask(const std::vector<std::string>& arguments) const;
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path(name); }
  [[nodiscard]] std::string text_of(const std::string& name) const;
  [[nodiscard]] nlohmann::json summary(const std::string& run_dir) const;
  // The changes in the summary, in order: "worker 1 lost, worker 1 joined".
  [[nodiscard]] std::string changes(const std::string& run_dir) const;
  // The process ids of the servers and of all workers but this one.
  [[nodiscard]] std::map<std::string, pid_t> survivors(const std::string& run_dir, uint64_t lost) const;
  [[nodiscard]] ProcessOptions options() const;

 private:
  TempDir dir_;
  std::string policy_;
  std::vector<std::string> kind_;
};

}  // namespace dtrain::test
