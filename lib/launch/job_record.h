// Which processes belong to a job, written down where `dtrain ps` and `dtrain kill` find it: files `processes-HOST-PID`
// in $XDG_STATE_HOME/dtrain/JOB/, by default ~/.local/state/dtrain/JOB/. (A runtime directory would be removed when the
// user logs out, while the job runs on.) HOST is there because hosts may share a home; PID is the launcher's or its
// agent's, of which a job may have several on one machine.
//
// A line a process: "role rank pid start". `start` is the process's start time in clock ticks after boot (field 22 of
// /proc/PID/stat): with the pid it names a process for good, while a pid alone is given out again.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::launch {

// $XDG_STATE_HOME/dtrain or ~/.local/state/dtrain; for a user without a home to write to /tmp/dtrain-UID.
std::string record_root(const job::Environment& environment);

// If `file`, the last part of a path, is a record of this host.
bool is_own_record(const std::string& file);

class JobRecord {
 public:
  // Makes ROOT/JOB for the user alone. An existing ROOT that is another user's, or open to others, is refused: who
  // could write there could choose what `dtrain kill` ends. Removes records that this host left when it went down.
  static Result<JobRecord> create(const std::string& root, const std::string& job);
  JobRecord(JobRecord&& other) noexcept : directory_(std::move(other.directory_)) { other.directory_.clear(); }
  JobRecord& operator=(JobRecord&&) = delete;
  ~JobRecord();  // removes the file, and the job's directory if it was the last one

  Result<> add(const std::string& role, int rank, pid_t pid) const;

  [[nodiscard]] std::string file() const;
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  explicit JobRecord(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

// Nothing if there is no such process.
std::optional<uint64_t> process_start_time(pid_t pid);

}  // namespace dtrain::launch
