#include "job/spec/resume.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <filesystem>

#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

namespace fs = std::filesystem;

// A run cannot change these: its weights, optimizer state, initial values and order of records depend on them.
constexpr std::array kFixed = {"network",   "num-layers", "num-classes", "image-shape",  "widen-factor",
                               "num-group", "batch-norm", "add-stn",     "smooth-alpha", "layer-before-fullc",
                               "data-type", "optimizer",  "initializer", "seed"};
// A different value of one of these means a different job, even if all other flags are equal.
constexpr std::array kOwnPaths = {"data-dir", "data-train",   "data-val",         "path-imglist",
                                  "mean-img", "model-prefix", "save-model-prefix"};

// Flags that turn a job of one process into a job of several.
constexpr std::array kOfSeveral = {"num-workers", "launcher", "role"};

// The first few directories in `parent` that hold runs, in order of name.
std::vector<std::string> runs_in(const std::string& parent) {
  constexpr size_t kShown = 5;
  std::vector<std::string> runs;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    if (fs::exists(entry.path() / kJobSpecFile, error)) runs.push_back(entry.path().string());
  }
  std::sort(runs.begin(), runs.end());
  if (runs.size() > kShown) runs.resize(kShown);
  return runs;
}

Error no_run(const std::string& directory) {
  const auto error = [&](const std::string& why) {
    return Error{Code::kNotFound, fmt::format("--resume {}: {}", directory, why), {}};
  };
  std::error_code ignored;
  const fs::path path(directory);
  if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) {
    return error(fmt::format("this is a file; give the run directory, '{}'", path.parent_path().string()));
  }
  if (!fs::exists(path, ignored)) {
    return error("there is no such directory; --resume takes a run directory, or 'auto' with the flags of the job");
  }
  const std::vector<std::string> inside = runs_in(directory);
  if (!inside.empty()) {
    return error(fmt::format("this is not a run directory, but it contains run directories: give one of {}",
                             fmt::join(inside, ", ")));
  }
  return error(fmt::format("no run has started in this directory: it has no file '{}'", kJobSpecFile));
}

}  // namespace

Result<JobSpec> read_resumed(const std::string& directory) {
  Result<JobSpec> spec = read_job_spec(directory);
  if (spec) return spec;
  std::error_code ignored;
  if (!fs::exists(fs::path(directory) / kJobSpecFile, ignored)) return tl::unexpected(no_run(directory));
  return tl::unexpected(std::move(spec.error()).with(fmt::format("resuming the run in '{}'", directory)));
}

Result<> take_resumed(const JobSpec& run, bool recalls, const std::vector<std::string>& given, Flags& flags) {
  flags.job = run.flags;
  for (const Row& row : training_flags().rows()) {
    if (row.scope == Scope::kJob) flags.sources[row.name] = Source::kResumed;
  }
  // A run whose store had no servers does not determine the number of servers of another store.
  if (run.flags.num_servers == 0) flags.sources.erase("num-servers");
  if (run.flags.num_servers == 0 && run.flags.num_workers == 1) {
    // A job of one process stores no process counts. If it becomes a job of several, its store does not matter either.
    flags.sources.erase("num-workers");
    const bool becomes_several = std::ranges::find_first_of(given, kOfSeveral) != given.end();
    if (becomes_several) flags.sources.erase("kv-store");
  }
  if (!recalls) return {};
  return recall(run.remembered, fs::current_path().string(), given, flags);
}

void take_kept_checkpoints(const JobSpec& run, Flags& flags) {
  if (flags.given("keep")) return;
  flags.loop.keep = checkpoints_kept(run.remembered);
  flags.sources["keep"] = Source::kResumed;
}

Result<> check_resumed(const JobSpec& run, const Flags& flags, const std::string& directory) {
  Flags then;
  then.job = run.flags;
  std::string changed;
  for (const Row& row : training_flags().rows()) {
    if (std::find(kFixed.begin(), kFixed.end(), row.name) == kFixed.end()) continue;
    const std::string value = row.bind.get(flags), before = row.bind.get(then);
    if (value == before || value == "auto") continue;  // "auto" takes the value of the run
    changed += fmt::format("{}--{} {} (the run has {})", changed.empty() ? "" : ", ", row.name, value, before);
  }
  if (changed.empty()) return {};
  return fail(Code::kUsage,
              "--resume {}: the run in that directory cannot continue with {}: leave out the flag, or start a new run "
              "without --resume",
              directory, changed);
}

std::string differences_from_run(const JobSpec& run, const Flags& flags, const std::string& directory) {
  JobSpec here = requested(flags);
  JobSpec there{.flags = run.flags, .mean_image = run.mean_image, .label_list = run.label_list};
  here.flags.num_epochs = there.flags.num_epochs;
  if (!here.flags.seed) here.flags.seed = there.flags.seed;
  std::string text = describe_differences(there, here);
  const Remembered now = remember(flags, directory);
  if (run.remembered.directory.empty()) return text;  // the run is from a version of dtrain that did not store paths
  for (const char* flag : kOwnPaths) {
    const auto value_of = [flag](const Remembered& of) {
      return absolute_value(flag, of.path_of(flag), of.directory, of.path_of("data-dir"));
    };
    const std::string before = value_of(run.remembered), value = value_of(now);
    if (before == value) continue;
    text += fmt::format("{}{} (run {}, here {})", text.empty() ? "" : ", ", flag, before.empty() ? "none" : before,
                        value.empty() ? "none" : value);
  }
  return text;
}

}  // namespace dtrain::job
