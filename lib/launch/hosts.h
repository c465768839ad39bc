// Prepares the hosts of a job before its first process starts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "launch/host.h"
#include "launch/job.h"

namespace dtrain::launch {

// The number of descriptors that the launcher of the job may need: the streams of its hosts and of its local processes,
// and the logs of processes on hosts that do not share the run directory.
int64_t descriptors_of(const Job& job);

// A file in the run directory with which agents on other hosts detect whether they share that directory. The destructor
// removes it.
class RunDirMark {
 public:
  static Result<RunDirMark> create(const Job& job);
  RunDirMark(RunDirMark&& other) noexcept;
  RunDirMark& operator=(RunDirMark&&) = delete;
  ~RunDirMark();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit RunDirMark(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Returns this host, followed by the hosts of Job::other_hosts, so that the index is Command::host_number. If a group
// starts their agents, it comes last. `mark`: path of the job's RunDirMark; not used if there are no other hosts.
Result<std::vector<std::unique_ptr<Host>>> make_hosts(const Job& job, const std::string& mark);

}  // namespace dtrain::launch
