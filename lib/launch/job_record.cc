#include "launch/job_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/host_limits.h"
#include "base/unique_fd.h"
#include "base/write_all.h"

namespace dtrain::launch {
namespace {

namespace fs = std::filesystem;
constexpr mode_t kOwnerOnly = 0700;

Result<> make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kOwnerOnly) != 0 && errno != EEXIST) {
    return fail(Code::kStartup, "cannot create the directory '{}': {}", path, std::strerror(errno));
  }
  struct stat status {};
  const bool there = ::lstat(path.c_str(), &status) == 0;  // lstat, because a link may point anywhere
  if (!there || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid() || (status.st_mode & 077) != 0) {
    return fail(Code::kStartup, "'{}' is not a directory that only this user can use (mode 700): remove it", path);
  }
  return {};
}

constexpr std::string_view kStopTimeWord = "stop-time", kAddressWord = "address";

std::string stop_line(std::chrono::milliseconds time) {
  return fmt::format("{} 0 0 {}\n", kStopTimeWord, time.count());
}

std::string own_prefix() {
  return fmt::format("processes-{}-", host_name());
}

// True if the record names processes and none of them is running.
bool has_ended(const fs::path& record) {
  const RecordContent content = parse_record(read_file(record.string()).value_or(""));
  const auto runs = [](const RecordContent::Process& one) { return process_start_time(one.pid) == one.start; };
  return !content.processes.empty() && std::ranges::none_of(content.processes, runs);
}

void remove_ended(const std::string& root) {
  std::error_code error;
  for (const fs::directory_entry& job : fs::directory_iterator(root, error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(job.path(), error)) {
      if (!is_own_record(file.path().filename().string()) || !has_ended(file.path())) continue;
      ::unlink(file.path().c_str());
      ::rmdir(job.path().c_str());
    }
  }
}

}  // namespace

RecordContent parse_record(const std::string& text) {
  RecordContent content;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    RecordContent::Process process;
    if (!(words >> process.role)) continue;
    if (process.role == kAddressWord) {
      words >> content.scheduler >> content.token;
    } else if (words >> process.rank >> process.pid >> process.start) {
      if (process.role == kStopTimeWord) {
        content.stop_time = std::chrono::milliseconds(process.start);
      } else {
        content.processes.push_back(std::move(process));
      }
    }
  }
  return content;
}

std::string record_root(const job::Environment& environment) {
  const std::string state = environment("XDG_STATE_HOME").value_or("");
  if (state.starts_with('/')) return state + "/dtrain";
  const std::string home = environment("HOME").value_or("");
  if (home.starts_with('/') && ::access(home.c_str(), W_OK) == 0) return home + "/.local/state/dtrain";
  return fmt::format("/tmp/dtrain-{}", ::getuid());
}

bool is_own_record(const std::string& file) {
  const std::string prefix = own_prefix();
  return file.starts_with(prefix) && file.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

Result<JobRecord> JobRecord::create(const std::string& root, const std::string& job,
                                    std::chrono::milliseconds stop_time) {
  if (job.empty()) return JobRecord("", stop_time);
  DT_TRY_VOID(make_directories(fs::path(root).parent_path().string()), "recording the processes of job '{}'", job);
  DT_TRY_VOID(make_private_directory(root), "recording the processes of job '{}'", job);
  remove_ended(root);
  const std::string directory = root + "/" + job;
  DT_TRY_VOID(make_private_directory(directory), "recording the processes of job '{}'", job);
  return JobRecord(directory, stop_time);
}

std::string JobRecord::file() const {
  return directory_.empty() ? "" : fmt::format("{}/{}{}", directory_, own_prefix(), ::getpid());
}

JobRecord::~JobRecord() {
  if (directory_.empty()) return;
  ::unlink(file().c_str());
  ::rmdir(directory_.c_str());
}

Result<> JobRecord::add(const std::string& role, int rank, pid_t pid) {
  if (directory_.empty()) return {};
  DT_TRY_VOID(make_private_directory(directory_));  // another launcher may have removed the empty directory
  DT_TRY_VOID(append(fmt::format("{} {} {} {}\n", role, rank, pid, process_start_time(pid).value_or(0))));
  if (!has_begun_ && stop_time_ != kStopTime) DT_TRY_VOID(append(stop_line(stop_time_)));
  has_begun_ = true;
  return {};
}

void JobRecord::set_stop_time(std::chrono::milliseconds time) {
  stop_time_ = time;
  if (has_begun_) (void)append(stop_line(time));
}

void JobRecord::set_scheduler(const std::string& address, const std::string& token) {
  if (has_begun_) (void)append(fmt::format("{} {} {}\n", kAddressWord, address, token));
}

Result<> JobRecord::append(const std::string& line) const {
  const UniqueFd fd(::open(file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.open() || !write_all(fd.get(), line)) {
    return fail(Code::kStartup, "cannot write '{}': {}", file(), std::strerror(errno));
  }
  return {};
}

std::optional<uint64_t> process_start_time(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  if (!stat) return std::nullopt;
  // Field 2 is the program's name in parentheses, which may contain anything, so fields are counted from the last one.
  const size_t bracket = stat->rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(stat->substr(bracket + 1));
  std::string skipped;
  for (int field = 3; field < 22; field++) fields >> skipped;
  uint64_t start = 0;
  if (!(fields >> start)) return std::nullopt;
  return start;
}

}  // namespace dtrain::launch
