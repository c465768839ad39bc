// Makes run directories like those that runs of lenet on MNIST leave behind.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/flags/flags.h"
#include "job/spec/job_spec.h"
#include "role/setup/data.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "tensor/ndarray_file.h"

namespace dtrain::test {

// Runs the test in an empty working directory, because default run directories are relative to it.
class InTempDir {
 public:
  InTempDir() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(dir_.path());
    std::filesystem::create_directory("mnist");
  }
  ~InTempDir() { std::filesystem::current_path(before_); }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path(name); }

 private:
  TempDir dir_;
  std::filesystem::path before_;
};

inline job::Flags lenet(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--network", "lenet", "--data-dir", "mnist", "--data-type", "mnist"});
  return must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; })).flags;
}

// Writes a checkpoint of `epoch` that has weights but no optimizer states.
inline void leave_checkpoint(const std::string& prefix, int64_t epoch) {
  std::filesystem::create_directories(std::filesystem::path(prefix).parent_path());
  const NamedArray array{"arg:w", {1}, {0}};
  must(write_ndarray_file(fmt::format("{}-{:04}.params", prefix, epoch), {&array, 1}));
}

// Writes what a run with these flags leaves after it has begun; `epoch` is that of its checkpoint, if it has one.
inline void leave_run(const std::string& directory, job::Flags flags, std::optional<int64_t> epoch) {
  must(role::apply_own_data_set(flags));
  job::JobSpec spec = job::requested(flags);
  if (!spec.flags.seed) spec.flags.seed = 99;
  spec.shares = {{0, 100}};
  spec.batches = {1};
  spec.remembered = job::remember(flags, std::filesystem::current_path().string());
  std::filesystem::create_directories(directory);
  must(job::write_job_spec(directory, spec));
  if (epoch) leave_checkpoint(directory + "/lenet", *epoch);
}

}  // namespace dtrain::test
