// Records the processes of a job for `dtrain ps` and `dtrain kill`, in files `processes-HOST-PID` in
// $XDG_STATE_HOME/dtrain/JOB/, by default ~/.local/state/dtrain/JOB/. (A runtime directory would be removed when the
// user logs out while the job is still running.) HOST is in the name because hosts may share a home directory. PID is
// that of the launcher or agent; a job may have several on one host.
//
// Each line is one process: "role rank pid start". `start` is the process's start time in clock ticks since boot (field
// 22 of /proc/PID/stat). Together with the pid it identifies a process, while a pid alone may be reused. A line
// "stop-time 0 0 MS" says how long the job's processes have from TERM to KILL; the last one counts. A line "address
// HOST:PORT TOKEN" says where the job's scheduler can be called, and with which token. So the file is accessible only
// to this user.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "job/process/process_environment.h"
#include "launch/stop_time.h"

namespace dtrain::launch {

// $XDG_STATE_HOME/dtrain or ~/.local/state/dtrain; /tmp/dtrain-UID for a user without a writable home directory.
std::string record_root(const job::Environment& environment);

// What a record says.
struct RecordContent {
  struct Process {
    std::string role;
    int rank = 0;
    pid_t pid = 0;
    uint64_t start = 0;
  };
  std::vector<Process> processes;
  std::chrono::milliseconds stop_time = kStopTime;
  std::string scheduler, token;  // address and token of the scheduler; empty: the record does not say them
};
// Lines that do not have one of these forms are left out.
RecordContent parse_record(const std::string& text);

// True if `file`, a file name without directory, is a record of this host.
bool is_own_record(const std::string& file);

class JobRecord {
 public:
  // Creates ROOT/JOB, accessible only to this user. Fails if ROOT exists and belongs to another user or is accessible
  // to others, because anyone who can write there could choose which processes `dtrain kill` ends. Removes records left
  // behind when this host went down. With an empty `job` nothing is recorded.
  static Result<JobRecord> create(const std::string& root, const std::string& job,
                                  std::chrono::milliseconds stop_time = kStopTime);
  JobRecord(JobRecord&& other) noexcept
      : directory_(std::exchange(other.directory_, "")), stop_time_(other.stop_time_), has_begun_(other.has_begun_) {}
  JobRecord& operator=(JobRecord&&) = delete;
  ~JobRecord();  // removes the file, and the job's directory if it is empty then

  // The file is created with the first process, because a record without processes looks like that of a job that has
  // ended.
  Result<> add(const std::string& role, int rank, pid_t pid);
  // If the record cannot be written now, `dtrain kill` does not know the new time, but the job is not affected.
  void set_stop_time(std::chrono::milliseconds time);
  // If the record cannot be written now, `dtrain leave` must be told the address. An empty token: the job has none.
  void set_scheduler(const std::string& address, const std::string& token);

  [[nodiscard]] std::string file() const;  // the path of the record; empty if nothing is recorded
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  [[nodiscard]] Result<> append(const std::string& line) const;
  JobRecord(std::string directory, std::chrono::milliseconds stop_time)
      : directory_(std::move(directory)), stop_time_(stop_time) {}

  std::string directory_;
  std::chrono::milliseconds stop_time_;
  bool has_begun_ = false;
};

// Returns nullopt if there is no such process.
std::optional<uint64_t> process_start_time(pid_t pid);

}  // namespace dtrain::launch
