// Which processes belong to a job, written down where `dtrain ps` and `dtrain kill` find it: files `processes-PID` in
// $XDG_RUNTIME_DIR/dtrain/JOB/ or /tmp/dtrain-UID/JOB/ (R-L4), PID being the launcher's or its agent's: a job may have
// several of them on one machine.
//
// A line a process: "role rank pid start". `start` is the process's start time in clock ticks after boot (field 22 of
// /proc/PID/stat): with the pid it names a process for good, while a pid alone is given out again.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace dtrain::launch {

// `runtime_directory`: $XDG_RUNTIME_DIR; if it is empty or not there: /tmp/dtrain-UID.
std::string record_root(const std::string& runtime_directory);

class JobRecord {
 public:
  // Makes ROOT/JOB for the user alone. An existing ROOT that is another user's, or open to others, is refused: who
  // could write there could choose what `dtrain kill` ends.
  static Result<JobRecord> create(const std::string& root, const std::string& job);
  JobRecord(JobRecord&& other) noexcept : directory_(std::move(other.directory_)) { other.directory_.clear(); }
  JobRecord& operator=(JobRecord&&) = delete;
  ~JobRecord();  // removes the file, and the job's directory if it was the last one

  Result<> add(const std::string& role, int rank, pid_t pid) const;

  [[nodiscard]] std::string file() const { return fmt::format("{}/processes-{}", directory_, ::getpid()); }
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  explicit JobRecord(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

// Nothing if there is no such process.
std::optional<uint64_t> process_start_time(pid_t pid);

}  // namespace dtrain::launch
