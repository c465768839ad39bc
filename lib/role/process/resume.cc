#include "role/process/resume.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "job/resolve/network_file.h"
#include "job/spec/resume.h"
#include "role/setup/network.h"
#include "train/checkpoint.h"

namespace dtrain::role {
namespace {

namespace fs = std::filesystem;

std::string own_prefix(const job::JobFlags& job, const std::string& run_dir) {
  return run_dir + "/" + job::network_label(job.network.network);
}

// The prefix under which a run wrote its checkpoints.
std::string written_prefix(const Resumed& run) {
  for (const char* flag : {"save-model-prefix", "model-prefix"}) {
    const job::Remembered& remembered = run.spec.remembered;
    std::string prefix = remembered.path_of(flag);
    if (prefix.empty()) continue;
    if (remembered.directory == fs::current_path().string()) return prefix;
    return job::absolute_value(flag, prefix, remembered.directory, "");
  }
  return own_prefix(run.spec.flags, run.directory);
}

// The position of the newest checkpoint with this prefix; nullopt if there is none.
Result<std::optional<train::Position>> newest_position(const std::string& prefix) {
  DT_TRY(const std::optional<train::CheckpointName> newest, train::newest_checkpoint(prefix));
  if (!newest) return std::nullopt;
  if (newest->epoch) return train::Position{*newest->epoch, 0};
  DT_TRY(const train::Checkpoint last, train::read_checkpoint(*newest));
  return last.header ? std::optional(last.header->position) : std::nullopt;
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

// Whether this process can see the run's checkpoints. In a job on other hosts they are where worker 0 runs.
bool sees_checkpoints(const job::Flags& flags) {
  return flags.launch.role == job::Role::kNone && !flags.launch.on_other_hosts();
}

ResumeSearch resuming(Resumed run, const std::optional<train::Position>& position, const job::Flags& flags,
                      const std::string& changes) {
  ResumeSearch search;
  const int64_t epochs = flags.job.num_epochs;
  search.is_finished = position && position->epoch >= epochs;
  if (search.is_finished) {
    search.notes.push_back(
        fmt::format("the run in {} is finished after {} of {} epochs. To continue it, give a larger --num-epochs; to "
                    "start a new run, leave out --resume",
                    run.directory, position->epoch, epochs));
  } else {
    search.notes.push_back(fmt::format(
        "resuming the run in {}{}", run.directory,
        position ? fmt::format(" at epoch {}, step {}", position->epoch + 1, position->step) : std::string()));
    if (!changes.empty()) search.notes.push_back("some settings of the job differ from the earlier run: " + changes);
  }
  search.run = std::move(run);
  return search;
}

std::string older_version_note(const std::vector<std::string>& flags) {
  std::vector<std::string> meanings;
  meanings.reserve(flags.size());
  for (const std::string& flag : flags) {
    meanings.push_back(fmt::format("--{} ({})", flag, job::former_value(flag).value_or("")));
  }
  return fmt::format("the jobspec was written by an older version of dtrain, so {} {} old meaning",
                     fmt::join(meanings, ", "), flags.size() == 1 ? "keeps its" : "keep their");
}

Result<ResumeSearch> resume_named(const job::Flags& flags) {
  const std::string& directory = flags.loop.resume;
  DT_TRY(job::JobSpec spec, job::read_resumed(directory));
  DT_TRY_VOID(job::check_resumed(spec, flags, directory));
  Resumed run{directory, std::move(spec)};
  std::optional<train::Position> position;
  if (sees_checkpoints(flags)) {
    const std::string prefix = load_prefix(flags, directory, run);
    DT_TRY(position, newest_position(prefix), "resuming the run in '{}'", directory);
    if (!position) {
      return fail(Code::kNotFound,
                  "--resume {}: the run has written no checkpoint from which it could continue ({}-NNNN.params, "
                  "{}-last.params); to start it again from the beginning, give --run-dir {} --overwrite and the flags "
                  "of the job instead of --resume",
                  directory, prefix, prefix, directory);
    }
  }
  std::vector<std::string> older = run.spec.older_flags;
  std::erase_if(older, [&](const std::string& flag) { return flags.source(flag) != job::Source::kResumed; });
  job::JobSpec then;
  then.flags = run.spec.flags;
  then.mean_image = run.spec.mean_image;
  then.label_list = run.spec.label_list;
  ResumeSearch search = resuming(std::move(run), position, flags, describe_differences(then, job::requested(flags)));
  if (!older.empty() && !search.is_finished) search.notes.push_back(older_version_note(older));
  return search;
}

// Checks runs one by one, and remembers why each was rejected.
class Candidates {
 public:
  explicit Candidates(const job::Flags& flags) : flags_(flags), here_(fs::current_path().string()) {}

  // Returns the run in the directory, if it can be continued.
  Result<std::optional<ResumeSearch>> look_at(const std::string& directory) {
    const Result<job::JobSpec> spec = job::read_job_spec(directory);
    if (!spec) return reject(directory, "cannot be read: " + spec.error().message);
    const std::string differences = job::differences_from_run(*spec, flags_, here_);
    if (!differences.empty()) return reject(directory, "is another job: " + differences);
    Resumed run{directory, *spec};
    std::optional<train::Position> position;
    if (sees_checkpoints(flags_)) {
      DT_TRY(position, newest_position(load_prefix(flags_, directory, run)), "resuming the run in '{}'", directory);
      if (!position) return reject(directory, "has no checkpoint");
    }
    return resuming(std::move(run), position, flags_, "");
  }

  [[nodiscard]] std::string text(const std::string& where) const {
    constexpr size_t kShown = 5;
    if (rejected_.empty()) return fmt::format("there is no run in {}", where);
    const size_t shown = std::min(kShown, rejected_.size());
    std::string text = fmt::format("{}", fmt::join(rejected_.begin(), rejected_.begin() + shown, "; "));
    if (rejected_.size() > shown) text += fmt::format("; and {} older runs", rejected_.size() - shown);
    return text;
  }

 private:
  std::optional<ResumeSearch> reject(const std::string& directory, const std::string& why) {
    rejected_.push_back(fmt::format("{} {}", directory, why));
    return std::nullopt;
  }

  const job::Flags& flags_;
  std::string here_;
  std::vector<std::string> rejected_;
};

Result<ResumeSearch> resume_newest(job::Flags flags) {
  const Result<> data_is_here = complete_flags(flags);
  if (!data_is_here && flags.launch.dry_run)
    return ResumeSearch{};  // not an error: the data may exist on the host that will run the job
  DT_TRY_VOID(data_is_here);
  const std::string& own = flags.launch.run_dir;
  const std::string where = own.empty() ? fs::path(job::default_run_dir(flags, {})).parent_path().string() : own;
  std::vector<std::string> directories = runs_newest_first(where);
  if (!own.empty()) {
    std::error_code ignored;
    directories.clear();
    if (fs::exists(fs::path(own) / job::kJobSpecFile, ignored)) directories.push_back(own);
  }
  Candidates candidates(flags);
  for (const std::string& directory : directories) {
    DT_TRY(std::optional<ResumeSearch> found, candidates.look_at(directory));
    if (found) return *std::move(found);
  }
  const std::string why = candidates.text(where);
  if (flags.loop.retrain) {
    return fail(Code::kNotFound,
                "--retrain: no run of this job can be continued: {}. To continue another run, give --resume DIR", why);
  }
  ResumeSearch search;
  search.notes.push_back(
      fmt::format("--resume auto: no run of this job can be continued, so a new run starts: {}", why));
  return search;
}

}  // namespace

namespace {

// The run that the launcher has started before in its own directory; nullopt: it had not begun, or not on this host.
std::optional<Resumed> own_run(const job::Flags& flags) {
  Result<job::JobSpec> spec = job::read_job_spec(flags.launch.run_dir);
  if (!spec || !spec->is_complete()) return std::nullopt;
  return Resumed{flags.launch.run_dir, *std::move(spec)};
}

// Refuses a start from an old epoch of a prefix to which this run will write, because a restart would take the later
// epochs for its own.
Result<> check_later_epochs(const job::Flags& flags, const std::string& prefix) {
  const std::optional<int64_t>& epoch = flags.loop.load_epoch;
  if (flags.launch.max_restarts == 0 || !epoch) return {};
  DT_TRY(const std::optional<train::CheckpointName> newest, train::newest_checkpoint(prefix));
  if (!newest || (newest->epoch && *newest->epoch <= *epoch)) return {};
  return fail(Code::kUsage,
              "--load-epoch {} with --max-restarts: there is a later checkpoint, '{}', from which a restart would "
              "continue; give another --save-model-prefix, or move that checkpoint away",
              *epoch, newest->stem());
}

}  // namespace

Result<ResumeSearch> find_resumed(const job::Flags& flags) {
  if (flags.launch.restart > 0) {
    if (std::optional<Resumed> own = own_run(flags)) return ResumeSearch{std::move(own), false, {}};
  }
  if (flags.loop.resume.empty()) return ResumeSearch{};
  return flags.loop.resume == "auto" ? resume_newest(flags) : resume_named(flags);
}

std::string save_prefix(const job::Flags& flags, const std::string& run_dir) {
  if (!flags.loop.save_model_prefix.empty()) return flags.loop.save_model_prefix;
  return flags.loop.model_prefix.empty() ? own_prefix(flags.job, run_dir) : flags.loop.model_prefix;
}

std::string load_prefix(const job::Flags& flags, const std::string& run_dir, const std::optional<Resumed>& resumed) {
  const std::string& named = flags.loop.model_prefix;
  if (!resumed) return named.empty() ? own_prefix(flags.job, run_dir) : named;
  const job::Remembered& remembered = resumed->spec.remembered;
  const auto absolute = [](const std::string& path, const std::string& directory) {
    return job::absolute_value("model-prefix", path, directory, "");
  };
  const std::string before = absolute(remembered.path_of("model-prefix"), remembered.directory);
  const bool is_new = !named.empty() && absolute(named, fs::current_path().string()) != before;
  return is_new ? named : written_prefix(*resumed);
}

Result<std::optional<train::StartFrom>> start_of(const job::Flags& flags, const std::string& run_dir,
                                                 const std::optional<Resumed>& resumed) {
  const std::string own = save_prefix(flags, run_dir);
  std::optional<Resumed> first = resumed;  // the run from which this one started first
  if (flags.launch.restart > 0) {
    DT_TRY(const std::optional<train::CheckpointName> newest, train::newest_checkpoint(own));
    if (newest) return train::StartFrom{own, std::nullopt};
    first.reset();
    if (!flags.loop.resume.empty()) {
      DT_TRY(job::JobSpec spec, job::read_resumed(flags.loop.resume));
      first = Resumed{flags.loop.resume, std::move(spec)};
    }
  }
  if (!flags.loop.load_epoch && !first) return std::nullopt;
  const std::string prefix = load_prefix(flags, run_dir, first);
  if (flags.launch.restart == 0 && prefix == own) DT_TRY_VOID(check_later_epochs(flags, prefix));
  return train::StartFrom{prefix, flags.loop.load_epoch};
}

}  // namespace dtrain::role
