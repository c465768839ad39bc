#include "job/spec/remembered.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/file.h"
#include "base/words.h"
#include "job/flags/flags.h"
#include "job/flags/rows.h"
#include "job/flags/value.h"

namespace dtrain::job {

namespace {

using Names = std::vector<std::string_view>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Flags that concern a single start of a run.
const Names kOfOneStart = {"run-dir", "overwrite", "resume", "retrain", "load-epoch",         "dry-run", "config",
                           "preset",  "check",     "inject", "verbose", "allow-mixed-builds", "test-io"};
// Flags that concern a single process, or that must be given again: the directory to copy; environment variables,
// because their values may be secrets; and the permission to run without a token, which must not come from someone
// else's run directory.
const Names kOfOneProcess = {"role",       "scheduler", "rank",         "token-file", "env",     "env-server",
                             "env-worker", "env-file",  "sync-dst-dir", "exclude",    "insecure"};
const Names kPaths = {"model-prefix", "save-model-prefix", "pretrained-model", "groups-file", "data-sharding-file",
                      "hostfile",     "trace-events",      "tls-cert",         "tls-key",     "tls-ca",
                      "data-dir",     kNetworkFile,        "path-imglist"};
// Lists of paths, separated by ';', that are relative to --data-dir if it is given. A text that is itself an existing
// path counts as one path.
const Names kDataPaths = {"data-train", "data-val", "data-train-idx", "data-val-idx"};

const Row* row_of(std::string_view flag) {
  for (const Row& row : rows_that_may_be_stored()) {
    if (row.name == flag) return &row;
  }
  return nullptr;
}

std::string absolute(const std::string& path, const std::string& directory) {
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

std::string absolute_list(const std::string& list, const std::string& directory) {
  std::vector<std::string> paths = split_paths(list, directory);
  for (std::string& path : paths) path = absolute(path, directory);
  return joined(paths, ";");
}

// True if the scheduler would read the file of this flag from its default path.
bool is_read_by_default(const Flags& flags, std::string_view flag) {
  std::error_code ignored;
  if (flag == "groups-file") {
    return store_of(flags.job).scheme == Scheme::kGsp && std::filesystem::exists(flags.launch.groups_file, ignored);
  }
  return flag == "data-sharding-file" && flags.job.scheme.data_allocator;
}

// True if the command line chooses other devices, which replace the remembered ones.
bool is_replaced(std::string_view flag, const std::vector<std::string>& given) {
  const auto gives = [&](const char* name) { return std::find(given.begin(), given.end(), name) != given.end(); };
  if (flag == "work-load-list") return gives("gpus") || gives("cpus");
  return (flag == "gpus" && gives("cpus")) || (flag == "cpus" && gives("gpus"));
}

}  // namespace

const std::vector<Row>& rows_that_may_be_stored() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows = training_flags().rows();
    rows.push_back({.name = std::string(kNetworkFile), .bind = DT_FIELD(Flags, job.network.file, "none")});
    return rows;
  }();
  return all;
}

std::string Remembered::path_of(std::string_view flag) const {
  const auto found = values.find(flag);
  return found == values.end() || found->second == "none" ? "" : found->second;
}

int64_t checkpoints_kept(const Remembered& run) {
  Flags flags;
  const auto stored = run.values.find("keep");
  (void)FlagTable<Flags>::set(*row_of("keep"), stored != run.values.end() ? stored->second : *former_value("keep"),
                              flags);
  return flags.loop.keep;
}

bool is_remembered(std::string_view flag) {
  const Row* row = row_of(flag);
  return row != nullptr && row->scope == Scope::kProcess && !contains(kOfOneStart, flag) &&
         !contains(kOfOneProcess, flag);
}

std::optional<std::string> former_value(std::string_view flag) {
  if (flag == "keep") return "0";
  if (flag == "on-worker-loss") return "fail";
  if (flag == "reshare") return "epoch";
  if (flag == "elastic-batch") return "off";
  if (flag == "max-workers" || flag == "snapshot-every") return "0";
  return std::nullopt;
}

Remembered remember(const Flags& flags, const std::string& directory) {
  if (directory.find('\n') != std::string::npos) return {};  // the file has one line per value
  Remembered run{.directory = directory};
  const Flags defaults;
  for (const Row& row : rows_that_may_be_stored()) {
    if (!is_remembered(row.name)) continue;
    std::string value = row.bind.get(flags);
    const bool given = flags.source(row.name) > Source::kEnvironment;
    const bool differs = value != row.bind.get(defaults) && flags.source(row.name) != Source::kEnvironment;
    const bool is_default = !given && !differs && !is_read_by_default(flags, row.name);
    if (is_default && !former_value(row.name)) continue;
    // A path in --data-dir is stored relative to it, so that the run can be resumed with another --data-dir. Relative
    // names of data sets need no change.
    const std::string& data_dir = flags.data.data_dir;
    const bool moves = row.name == "mean-img" || (contains(kDataPaths, row.name) && data_dir.starts_with('/'));
    if (moves && !data_dir.empty() && value.starts_with(data_dir + "/") && value.find(';') == std::string::npos) {
      value = std::string(kInDataDir) + value.substr(data_dir.size() + 1);
    }
    if (!value.empty()) run.values[row.name] = std::move(value);
  }
  return run;
}

std::string absolute_value(std::string_view flag, const std::string& value, const std::string& directory,
                           const std::string& data_dir) {
  if (value.empty() || value == "none" || value.starts_with(kInDataDir)) return value;
  if (contains(kPaths, flag)) return absolute(value, directory);
  if (contains(kDataPaths, flag)) return data_dir.empty() ? absolute_list(value, directory) : value;
  const bool bare = value.find('/') == std::string::npos;  // a name without a directory is in --data-dir
  return flag == "mean-img" && !bare ? absolute(value, directory) : value;
}

Result<> recall(const Remembered& run, const std::string& directory, const std::vector<std::string>& given,
                Flags& flags) {
  flags.loop.keep = checkpoints_kept(run);
  flags.sources["keep"] = Source::kResumed;
  for (const auto& [flag, text] : run.values) {
    if (!is_remembered(flag) || is_replaced(flag, given)) continue;
    const std::string value =
        run.directory == directory ? text : absolute_value(flag, text, run.directory, run.path_of("data-dir"));
    const Result<> set = FlagTable<Flags>::set(*row_of(flag), value, flags);
    if (!set) return fail(Code::kUsage, "{} = {}: {}", flag, value, set.error().message);
    flags.sources[flag] = Source::kResumed;
  }
  return {};
}

std::vector<std::string> recalled_arguments(const Flags& flags) {
  std::vector<std::string> arguments;
  for (const Row& row : rows_that_may_be_stored()) {
    if (!is_remembered(row.name) || flags.source(row.name) != Source::kResumed) continue;
    const std::string flag = row.name == kNetworkFile ? "--network" : row.spelling();
    arguments.push_back(fmt::format("{}={}", flag, row.bind.get(flags)));
  }
  return arguments;
}

}  // namespace dtrain::job
