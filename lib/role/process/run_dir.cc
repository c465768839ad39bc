#include "role/process/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "data/records/record_index.h"
#include "job/resolve/network_file.h"
#include "telemetry/class_results.h"
#include "telemetry/trace_file.h"
#include "train/checkpoint.h"
#include "train/rate_request.h"

namespace dtrain::role {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlanFilePrefix = "cudnn-plans-";

std::string spec_path(const std::string& run_dir) {
  return run_dir + "/" + job::kJobSpecFile;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<fs::file_time_type> written_at(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return error ? std::nullopt : std::optional(time);
}

bool is_same(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error) && !error;
}

// Whether the directory contains files of a run that has begun.
bool holds_run(const std::string& directory) {
  if (exists(directory + "/" + kMetricsFile)) return true;
  const Result<job::JobSpec> spec = job::read_job_spec(directory);
  return spec ? spec->is_complete() : spec.error().code != Code::kNotFound;
}

bool is_log(std::string_view name) {
  const bool of_role = name.starts_with("worker-") || name.starts_with("server-") || name.starts_with("scheduler-");
  return of_role && name.ends_with(".log");
}

// Whether this is the name of a checkpoint file: PREFIX-symbol.json, PREFIX-NNNN.params, PREFIX-last.states and the
// like.
bool is_checkpoint(std::string_view name, const std::string& network) {
  if (name == network + train::kClaimSuffix) return true;
  if (!name.starts_with(network + "-")) return false;
  if (name.ends_with(train::kSpareSuffix)) name.remove_suffix(train::kSpareSuffix.size());
  return name.ends_with("-symbol.json") || name.ends_with(".params") || name.ends_with(".states");
}

bool is_plan_file(std::string_view name) {
  return name.starts_with(kPlanFilePrefix) && name.ends_with(".json");
}

// Removes the event files of all workers, and their directories if nothing else is in them.
void remove_tensorboard(const fs::path& directory) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const fs::directory_entry& worker : fs::directory_iterator(directory, ignored)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(worker.path(), ignored)) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
    }
    files.push_back(worker.path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
  fs::remove(directory, ignored);
}

// Removes the files that dtrain has written for a run; other files stay.
void remove_run(const std::string& directory) {
  const Result<job::JobSpec> spec = job::read_job_spec(directory);
  const std::string network = spec ? job::network_label(spec->flags.network.network) : "";
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool known = telemetry::is_trace_file(name) || name == job::kJobSpecFile || name == kMetricsFile ||
                       name == "summary.json" || name == kClassNamesFile || telemetry::is_class_results_file(name) ||
                       is_plan_file(name);
    if (known || is_log(name) || name.ends_with(data::kKeptOffsetsSuffix) || (spec && is_checkpoint(name, network)))
      files.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
  remove_tensorboard(fs::path(directory) / kTensorBoardDirectory);
}

// Whether a run with these flags continues the one in the directory.
bool continues(const std::string& directory, const job::Flags& flags, const std::optional<Resumed>& resumed) {
  if (resumed) return is_same(resumed->directory, directory);
  return flags.loop.load_epoch && flags.loop.model_prefix.empty();
}

Result<> refuse_other_run(const std::string& directory, const job::Flags& flags,
                          const std::optional<Resumed>& resumed) {
  if (continues(directory, flags, resumed) || !holds_run(directory)) return {};
  if (flags.launch.overwrite) {
    remove_run(directory);
    return {};
  }
  return fail(Code::kUsage,
              "--run-dir {}: the directory already contains a run. To continue that run, give --resume {}; to delete "
              "it, give --overwrite; to keep it, give another --run-dir",
              directory, directory);
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Checks at the start whether checkpoints can be written, because the first one is written hours later.
Result<> try_to_write(const std::string& prefix) {
  DT_TRY(AtomicFile file, AtomicFile::create(prefix + "-symbol.json"));
  return file.write(" ");
}

}  // namespace

std::string plan_file_name(uint32_t rank) {
  return fmt::format("{}{}.json", kPlanFilePrefix, rank);
}

std::string choose_run_dir(const job::Flags& flags, const std::optional<Resumed>& resumed) {
  if (!flags.launch.run_dir.empty()) return flags.launch.run_dir;
  return resumed ? resumed->directory : job::default_run_dir(flags, std::chrono::system_clock::now());
}

namespace {

// The name that the i-th run gets, counted from 1, if several want the same, because they begin in the same second.
std::string numbered(const std::string& wanted, int i) {
  return i == 1 ? wanted : fmt::format("{}-{}", wanted, i);
}

}  // namespace

std::string unused_run_dir(const std::string& wanted) {
  int i = 1;
  while (exists(numbered(wanted, i))) i++;
  return numbered(wanted, i);
}

std::string run_name(const std::string& run_dir) {
  std::error_code ignored;
  const fs::path path = fs::absolute(run_dir, ignored).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Creates the directory and its missing parents, and records each.
Result<> RunDir::make(const std::string& directory) {
  std::vector<std::string> missing;
  for (fs::path path(directory); !path.empty() && !exists(path.string()); path = path.parent_path()) {
    missing.push_back(path.string());
  }
  DT_TRY_VOID(make_directories(directory));
  made_.insert(made_.end(), missing.rbegin(), missing.rend());
  return {};
}

// Locks the directory itself, because a run has no file that stays the same from its start to its end. The lock is
// released when the process ends, in whatever way. On a file system that cannot lock directories, such as NFS, a
// running job is recognized by the lock of its worker 0 on the metrics file.
Result<> RunDir::lock(const std::optional<Resumed>& resumed) {
  lock_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_taken = lock_.open() && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!is_taken && !train::is_training(path_ + "/" + kMetricsFile)) return {};
  return fail(Code::kUsage,
              "--{} {}: the job in this directory is still running; wait until it ends, stop it, or give another "
              "--run-dir to train at the same time",
              resumed ? "resume" : "run-dir", path_);
}

Result<> RunDir::write_early_spec(const job::Flags& flags, const std::optional<Resumed>& resumed) {
  job::JobSpec spec = resumed && is_same(resumed->directory, path_) ? resumed->spec : job::requested(flags);
  spec.remembered = job::remember(flags, fs::current_path().string());
  before_ = read_file(spec_path(path_)).value_or("");
  metrics_before_ = written_at(path_ + "/" + kMetricsFile);
  DT_TRY_VOID(job::write_job_spec(path_, spec));
  wrote_spec_ = true;
  return {};
}

namespace {

// Creates a new directory.
Result<std::string> make_new(const std::string& wanted) {
  constexpr int kTries = 1000;
  DT_TRY_VOID(make_directories(parent_of(wanted)));
  for (int i = 1; i <= kTries; i++) {
    std::string path = numbered(wanted, i);
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    if (error) return fail(Code::kUsage, "cannot create the directory '{}': {}", path, error.message());
  }
  return fail(Code::kUsage, "cannot create the directory '{}': {} directories with this name already exist", wanted,
              kTries);
}

}  // namespace

Result<RunDir> RunDir::claim(const job::Flags& flags, const std::optional<Resumed>& resumed) {
  RunDir dir(choose_run_dir(flags, resumed), flags.launch.on_other_hosts());
  dir.is_claimed_ = true;
  if (flags.launch.run_dir.empty() && !resumed) {
    DT_TRY_VOID(dir.make(parent_of(dir.path_)), "creating the run directory");
    DT_TRY(dir.path_, make_new(dir.path_), "creating the run directory");
    dir.made_.push_back(dir.path_);
    DT_TRY_VOID(dir.lock(resumed));
  } else {
    DT_TRY_VOID(dir.make(dir.path_), "creating the run directory");
    DT_TRY_VOID(dir.lock(resumed));
    DT_TRY_VOID(refuse_other_run(dir.path_, flags, resumed));
  }
  DT_TRY_VOID(dir.write_early_spec(flags, resumed), "writing to the run directory");
  if (dir.is_remote_) return dir;
  const std::string prefix = save_prefix(flags, dir.path_);
  DT_TRY_VOID(dir.make(parent_of(prefix)), "creating the directory of the checkpoints");
  DT_TRY_VOID(try_to_write(prefix), "checking that checkpoints can be written");
  return dir;
}

Result<> prepare_checkpoints(const job::Flags& flags, const std::string& run_dir) {
  const std::string prefix = save_prefix(flags, run_dir);
  DT_TRY_VOID(make_directories(parent_of(prefix)), "creating the directory of the checkpoints");
  DT_TRY_VOID(try_to_write(prefix), "checking that checkpoints can be written");
  return {};
}

Result<RunDir> RunDir::share(const job::Flags& flags, const std::optional<Resumed>& resumed) {
  RunDir dir(choose_run_dir(flags, resumed), false);
  const bool begins_run = flags.launch.role == job::Role::kScheduler && flags.launch.returns == 0;
  if (begins_run) DT_TRY_VOID(refuse_other_run(dir.path_, flags, resumed));
  DT_TRY_VOID(dir.make(dir.path_), "creating the run directory");
  return dir;
}

// Opens the log file, and first creates the directory if it is gone: the process of the job that made it may have
// failed to start and removed it. Once the log file is in it, the directory stays.
Result<> RunDir::open_log(Log& log, const std::string& name) {
  constexpr int kTries = 100;
  const std::string file = path_ + "/" + name;
  Result<> opened;
  for (int i = 0; i < kTries; i++) {
    DT_TRY_VOID(make(path_), "creating the run directory");
    opened = log.add_file(file);
    if (opened || exists(path_)) break;
  }
  if (opened) logs_.push_back(file);
  return opened;
}

RunDir::RunDir(RunDir&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      lock_(std::move(other.lock_)),
      is_remote_(other.is_remote_),
      is_claimed_(other.is_claimed_),
      made_(std::move(other.made_)),
      logs_(std::move(other.logs_)),
      wrote_spec_(other.wrote_spec_),
      before_(std::move(other.before_)),
      metrics_before_(other.metrics_before_) {}

RunDir::~RunDir() {
  if (!path_.empty() && !has_begun()) give_back();
}

bool RunDir::has_begun() const {
  const std::optional<fs::file_time_type> metrics = written_at(path_ + "/" + kMetricsFile);
  if (metrics && metrics != metrics_before_) return true;
  if (is_claimed_ && !is_remote_) return false;
  const Result<job::JobSpec> spec = job::read_job_spec(path_);
  return spec && spec->is_complete();
}

void RunDir::give_back() {
  std::error_code ignored;
  const bool made = std::find(made_.begin(), made_.end(), path_) != made_.end();
  if (wrote_spec_ && before_.empty()) fs::remove(spec_path(path_), ignored);
  if (wrote_spec_ && !before_.empty()) std::ignore = write_file_atomic(spec_path(path_), before_);
  if (made && is_claimed_) {
    remove_run(path_);  // removes the logs of other processes of this job, too
  } else if (made) {
    for (const std::string& log : logs_) fs::remove(log, ignored);
  }
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) ::rmdir(path->c_str());
}

Result<> write_complete_spec(const job::Flags& flags, job::JobSpec spec, const std::string& run_dir) {
  const Result<job::JobSpec> there = job::read_job_spec(run_dir);
  spec.remembered = there && !there->remembered.directory.empty() ? there->remembered
                                                                  : job::remember(flags, fs::current_path().string());
  return job::write_job_spec(run_dir, spec);
}

Result<> adopt_spec(const job::Flags& flags, const job::JobSpec& spec, const std::string& run_dir,
                    const std::optional<Resumed>& resumed) {
  const auto has_spec = [&] {
    const Result<job::JobSpec> there = job::read_job_spec(run_dir);
    return there && job::text(*there) == job::text(spec);
  };
  if (has_spec()) return {};
  Result<> refused = refuse_other_run(run_dir, flags, resumed);
  // Another process of this job on this host may have written the JobSpec, and begun the run, after the first call of
  // has_spec().
  if (!refused) return has_spec() ? Result<>() : refused;
  return write_complete_spec(flags, spec, run_dir);
}

}  // namespace dtrain::role
