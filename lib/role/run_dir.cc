#include "role/run_dir.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace dtrain::role {
namespace {

namespace fs = std::filesystem;

// Is `spec` a run of the job that `flags` describe? Its length may differ: going on for longer is what resuming is for.
bool same_job(const job::JobSpec& spec, const job::Flags& flags) {
  job::JobSpec here = job::requested(flags);
  job::JobSpec there;
  there.flags = spec.flags;
  there.mean_image = spec.mean_image;
  here.flags.num_epochs = there.flags.num_epochs;
  if (!here.flags.seed) here.flags.seed = there.flags.seed;
  return job::differences(there, here).empty();
}

std::vector<std::string> runs_newest_first(const std::string& parent) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const fs::file_time_type time = fs::last_write_time(entry.path() / job::kJobSpecFile, error);
    if (!error) found.emplace_back(time, entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> directories;
  directories.reserve(found.size());
  for (auto& [time, path] : found) directories.push_back(std::move(path));
  return directories;
}

}  // namespace

Result<std::optional<Resumed>> find_resumed(const job::Flags& flags) {
  const std::string& resume = flags.loop.resume;
  if (resume.empty()) return std::nullopt;
  if (resume != "auto") {
    DT_TRY(job::JobSpec spec, job::read_job_spec(resume), "resuming the run in '{}'", resume);
    return Resumed{resume, std::move(spec)};
  }
  const std::string parent = fs::path(job::default_run_dir(flags, {})).parent_path().string();
  for (const std::string& directory : runs_newest_first(parent)) {
    Result<job::JobSpec> spec = job::read_job_spec(directory);
    if (spec && same_job(*spec, flags)) return Resumed{directory, std::move(*spec)};
  }
  return std::nullopt;
}

std::string choose_run_dir(const job::Flags& flags, const std::optional<Resumed>& resumed) {
  if (!flags.launch.run_dir.empty()) return flags.launch.run_dir;
  return resumed ? resumed->directory : job::default_run_dir(flags, std::chrono::system_clock::now());
}

namespace {
std::string own_prefix(const job::Flags& flags, const std::string& run_dir) {
  return run_dir + "/" + flags.job.network.network;
}
}  // namespace

std::string save_prefix(const job::Flags& flags, const std::string& run_dir) {
  if (!flags.loop.save_model_prefix.empty()) return flags.loop.save_model_prefix;
  return flags.loop.model_prefix.empty() ? own_prefix(flags, run_dir) : flags.loop.model_prefix;
}

std::string load_prefix(const job::Flags& flags, const std::string& run_dir, const std::optional<Resumed>& resumed) {
  if (!flags.loop.model_prefix.empty()) return flags.loop.model_prefix;
  return own_prefix(flags, resumed ? resumed->directory : run_dir);
}

}  // namespace dtrain::role
