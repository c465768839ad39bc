// The directory that contains the files of a run.
//
//   jobspec             text of the JobSpec, and what else --resume needs (job/spec/job_spec.h)
//   ROLE-RANK.log       a log of each process
//   trace-ROLE-RANK.json, trace.json    timelines, if --trace or SIGUSR2 asked for them
//   metrics.jsonl       created when training begins; summary.json
//   validation-RANK.json    how each class was classified in a worker's last validation
//   cudnn-plans-RANK.json   how a worker's GPUs compute convolutions
//   tensorboard/        a directory of event files for each worker; created at the first step
//   synset.txt          the names of the classes, if the data are class directories
//   *.offsets           offsets of the records in a file without an index, if no index can be written next to it
//   NETWORK-*.params, .states, NETWORK-symbol.json    checkpoints, unless --model-prefix says otherwise
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "job/spec/job_spec.h"
#include "role/process/resume.h"

namespace dtrain::role {

inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kClassNamesFile = "synset.txt";
inline constexpr const char* kTensorBoardDirectory = "tensorboard";
// The file with the choices of a worker's GPUs (exec::PlanSettings): "cudnn-plans-0.json".
std::string plan_file_name(uint32_t rank);

// --run-dir, else the resumed run's directory, else a new name made from the network and the time. Creates nothing.
std::string choose_run_dir(const job::Flags& flags, const std::optional<Resumed>& resumed);

// `wanted`, or if it exists, because another run began in the same second, that name with a number.
std::string unused_run_dir(const std::string& wanted);

// The name of a run, which is the name of its directory: "lenet-20261121-101500".
std::string run_name(const std::string& run_dir);

// The run directory, as one process that is starting sees it. If the start fails, the destructor removes what the start
// has created.
class RunDir {
 public:
  // For a launcher or a process that trains alone, whose directory is not chosen by another process. Creates the
  // directory (if it is a new one, no other process gets the same), writes the JobSpec as far as it is known, creates
  // the checkpoint directory and checks that it is writable. No other process can claim the directory while this object
  // exists. Code::kUsage if the directory contains another run (with --overwrite that run is removed instead), belongs
  // to a job that is still running, or cannot be written.
  static Result<RunDir> claim(const job::Flags& flags, const std::optional<Resumed>& resumed);
  // For a process of a job whose directory may exist already and be used by other processes too. In the scheduler, a
  // directory that contains another run is refused, as by claim(), unless the scheduler comes back to its job.
  static Result<RunDir> share(const job::Flags& flags, const std::optional<Resumed>& resumed);

  RunDir(RunDir&& other) noexcept;
  RunDir& operator=(RunDir&&) = delete;
  ~RunDir();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Whether the run has begun. Its directory must then be kept.
  [[nodiscard]] bool has_begun() const;
  // Leaves the directory as it is, because another process has taken it over.
  void keep() { path_.clear(); }
  // Lets other processes claim the directory from now on.
  void unlock() { lock_ = UniqueFd(); }
  // Lets `log` write to the file `name` in the directory. A failed start removes the file.
  Result<> open_log(Log& log, const std::string& name);

 private:
  RunDir(std::string path, bool is_remote) : path_(std::move(path)), is_remote_(is_remote) {}
  Result<> make(const std::string& directory);
  Result<> lock(const std::optional<Resumed>& resumed);
  Result<> write_early_spec(const job::Flags& flags, const std::optional<Resumed>& resumed);
  void give_back();

  std::string path_;
  UniqueFd lock_;                  // the open directory, locked by claim(); not open if its file system has no locks
  bool is_remote_ = false;         // whether the job trains on other hosts, where its files are
  bool is_claimed_ = false;        // whether claim() has created this object, so that this process starts the whole run
  std::vector<std::string> made_;  // directories that this object has created, outermost first
  std::vector<std::string> logs_;  // log files of this process
  bool wrote_spec_ = false;        // whether write_early_spec has replaced the JobSpec file
  std::string before_;             // content of the earlier JobSpec file; empty: there was none
  // Time of the last earlier write to the metrics file.
  std::optional<std::filesystem::file_time_type> metrics_before_;
};

// Creates the directory of the checkpoints and checks that it is writable. Called by worker 0 of a job before its first
// step: claim() checks only the host where it runs, which may be another one.
Result<> prepare_checkpoints(const job::Flags& flags, const std::string& run_dir);

// Writes the complete JobSpec into the directory. The additional values for --resume are kept if the directory has
// them, and are taken from `flags` otherwise.
Result<> write_complete_spec(const job::Flags& flags, job::JobSpec spec, const std::string& run_dir);

// Like write_complete_spec, for a process that received the JobSpec when it joined and whose run directory may be on
// its own host. Code::kUsage if that directory contains another run.
Result<> adopt_spec(const job::Flags& flags, const job::JobSpec& spec, const std::string& run_dir,
                    const std::optional<Resumed>& resumed);

}  // namespace dtrain::role
