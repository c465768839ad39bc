// The directory that a run leaves behind.
//
//   jobspec             text of the JobSpec, and what --resume needs besides (job/job_spec.h)
//   ROLE-RANK.log       a log of each process
//   metrics.jsonl       made when training begins; summary.json
//   NETWORK-*.params, .states, NETWORK-symbol.json    checkpoints, unless --model-prefix says otherwise
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/job_spec.h"
#include "role/resume.h"

namespace dtrain::role {

inline constexpr const char* kMetricsFile = "metrics.jsonl";

// --run-dir, else the resumed run's own directory, else a new one by network and time. Not made yet.
std::string choose_run_dir(const job::Flags& flags, const std::optional<Resumed>& resumed);

// The name of a run, after its directory: "lenet-20261121-101500".
std::string run_name(const std::string& run_dir);

// A run directory in the hands of a process that starts. What the start has made and nobody needs is removed again by
// the destructor: of a start that fails nothing stays.
class RunDir {
 public:
  // For a process that nobody else gave a directory: a launcher, or a process alone. Makes the directory, no two
  // processes the same one, and writes the JobSpec as far as it is known; makes the directory of the checkpoints and
  // tries to write there. Code::kUsage: the directory holds another run (unless --overwrite, which removes that run),
  // or cannot be written.
  static Result<RunDir> claim(const job::Flags& flags, const std::optional<Resumed>& resumed);
  // For a process of a job: the directory may be there, and others may use it too. A scheduler refuses a directory with
  // another run, as claim does.
  static Result<RunDir> share(const job::Flags& flags, const std::optional<Resumed>& resumed);

  RunDir(RunDir&& other) noexcept;
  RunDir& operator=(RunDir&&) = delete;
  ~RunDir();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Whether the run has come so far that its directory is kept.
  [[nodiscard]] bool has_begun() const;
  // The file of this process's log, which a failed start removes.
  void owns_log(const std::string& file) { logs_.push_back(file); }

 private:
  RunDir(std::string path, bool is_remote) : path_(std::move(path)), is_remote_(is_remote) {}
  Result<> make(const std::string& directory);
  Result<> write_early_spec(const job::Flags& flags, const std::optional<Resumed>& resumed);
  void give_back();

  std::string path_;
  bool is_remote_ = false;         // training goes on elsewhere: its files are not here
  bool is_claimed_ = false;        // the start of the whole run is this process's
  std::vector<std::string> made_;  // directories, outermost first
  std::vector<std::string> logs_;  // of this process
  bool wrote_spec_ = false;        // the early one, in place of `before_`
  std::string before_;
  std::optional<std::filesystem::file_time_type> metrics_before_;  // when the metrics file was written last
};

// Writes the complete JobSpec into the directory; what the run remembers stays, or is that of the flags.
Result<> write_complete_spec(const job::Flags& flags, job::JobSpec spec, const std::string& run_dir);

// The same for a process that was told the JobSpec when it joined, and may have a run directory of its own on its host.
// Code::kUsage: that one holds another run.
Result<> adopt_spec(const job::Flags& flags, const job::JobSpec& spec, const std::string& run_dir,
                    const std::optional<Resumed>& resumed);

}  // namespace dtrain::role
