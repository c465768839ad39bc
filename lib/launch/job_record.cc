#include "launch/job_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "launch/unique_fd.h"

namespace dtrain::launch {
namespace {

constexpr mode_t kOwnerOnly = 0700;

Result<> make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kOwnerOnly) != 0 && errno != EEXIST) {
    return fail(Code::kStartup, "cannot create the directory '{}': {}", path, std::strerror(errno));
  }
  struct stat status {};
  const bool there = ::lstat(path.c_str(), &status) == 0;  // not stat: a link may lead anywhere
  if (!there || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid() || (status.st_mode & 077) != 0) {
    return fail(Code::kStartup, "'{}' is not a directory of this user alone (mode 700): remove it", path);
  }
  return {};
}

}  // namespace

std::string record_root(const std::string& runtime_directory) {
  // The variable outlives the directory in containers and after su.
  if (!runtime_directory.empty() && std::filesystem::is_directory(runtime_directory)) {
    return runtime_directory + "/dtrain";
  }
  return fmt::format("/tmp/dtrain-{}", ::getuid());
}

Result<JobRecord> JobRecord::create(const std::string& root, const std::string& job) {
  DT_TRY_VOID(make_private_directory(root), "recording the processes of job '{}'", job);
  const std::string directory = root + "/" + job;
  DT_TRY_VOID(make_private_directory(directory), "recording the processes of job '{}'", job);
  return JobRecord(directory);
}

JobRecord::~JobRecord() {
  if (directory_.empty()) return;
  ::unlink(file().c_str());
  ::rmdir(directory_.c_str());
}

Result<> JobRecord::add(const std::string& role, int rank, pid_t pid) const {
  const UniqueFd fd(::open(file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = fmt::format("{} {} {} {}\n", role, rank, pid, process_start_time(pid).value_or(0));
  if (!fd.open() || ::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return fail(Code::kStartup, "cannot write '{}': {}", file(), std::strerror(errno));
  }
  return {};
}

std::optional<uint64_t> process_start_time(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  if (!stat) return std::nullopt;
  // Field 2 is the program's name in brackets, which may contain anything: count from the last bracket.
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
