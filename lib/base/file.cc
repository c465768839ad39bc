#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <random>
#include <system_error>

namespace dtrain {
namespace {

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

// A name next to `path` that no other thread or process uses, including those on other hosts that share the directory.
// (A process number would be unique on one host only.)
std::string temporary_name(const std::string& path) {
  std::random_device random;
  return fmt::format("{}.tmp-{:08x}{:08x}", path, random(), random());
}

tl::unexpected<Error> too_large(const std::string& path, uint64_t bytes_max) {
  return fail(Code::kData, "{}: the file is larger than {} MiB, the limit for such files", path, bytes_max >> 20U);
}

Result<std::string> read_open_file(int fd, const std::string& path, uint64_t bytes_max) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail(Code::kData, "{}: {}", path, std::strerror(errno));
  const bool regular = S_ISREG(status.st_mode);
  if (!regular) bytes_max = std::min(bytes_max, kTextBytesMax);
  if (regular && static_cast<uint64_t>(status.st_size) > bytes_max) return too_large(path, bytes_max);
  std::string content;
  try {
    if (regular) content.reserve(static_cast<size_t>(status.st_size));
    char buffer[1 << 16];
    ssize_t got = 0;
    while ((got = ::read(fd, buffer, sizeof buffer)) != 0) {
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(Code::kData, "{}: {}", path, std::strerror(errno));
      content.append(buffer, static_cast<size_t>(got));
      if (content.size() > bytes_max) return too_large(path, bytes_max);
    }
  } catch (const std::bad_alloc&) {
    return fail(Code::kData, "{}: not enough memory for a file of {} MiB", path,
                static_cast<uint64_t>(status.st_size) >> 20U);
  }
  return content;
}

}  // namespace

Result<std::string> read_file(const std::string& path, uint64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail(errno == ENOENT ? Code::kNotFound : Code::kData, "{}: {}", path,
                errno == ENOENT ? "no such file" : std::strerror(errno));
  }
  Result<std::string> content = read_open_file(fd, path, bytes_max);
  ::close(fd);
  return content;
}

Result<UniqueFd> open_for_lines(const std::string& path, int flags) {
  // Without O_NONBLOCK, opening a pipe waits for its reader.
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0644));
  struct stat status {};
  const bool is_pipe = fd.open()
                           ? ::fstat(fd.get(), &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
                           : errno == ENXIO;
  if (is_pipe) return fail(Code::kUsage, "cannot write '{}': it is a pipe; give a regular file", path);
  if (!fd.open()) return fail(Code::kUsage, "cannot write '{}': {}", path, std::strerror(errno));
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

Result<AtomicFile> AtomicFile::create(std::string path, Fault fault) {
  AtomicFile file(std::move(path), std::move(fault));
  DT_TRY_VOID(file.open());
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      is_named_(std::exchange(other.is_named_, false)),
      is_flushed_(other.is_flushed_),
      fault_(std::move(other.fault_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (is_named_) ::unlink(temporary_.c_str());
}

bool AtomicFile::injected(const char* call) const {
  errno = fault_ ? fault_(call) : 0;
  return errno != 0;
}

Error AtomicFile::error(const char* call) const {
  const char* const limit = errno == EFBIG ? " (ulimit -f limits the size of files)" : "";
  return Error{Code::kData, fmt::format("cannot write '{}': {}: {}{}", path_, call, std::strerror(errno), limit), {}};
}

Result<> AtomicFile::open() {
  temporary_ = temporary_name(path_);
  if (injected("open")) return tl::unexpected(error("open"));
  fd_ = ::open(directory_of(path_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
  if (fd_ >= 0) return {};
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) return tl::unexpected(error("open"));
  is_named_ = true;
  return {};
}

Result<> AtomicFile::give_name() {
  if (is_named_) return {};
  const std::string nameless = fmt::format("/proc/self/fd/{}", fd_);
  if (injected("link") || ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return tl::unexpected(error("link"));
  }
  is_named_ = true;
  return {};
}

Result<> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = injected("write") ? -1 : ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return tl::unexpected(error("write"));
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Result<> AtomicFile::flush() {
  if (injected("fsync") || ::fsync(fd_) != 0) return tl::unexpected(error("fsync"));
  is_flushed_ = true;
  return {};
}

Result<> AtomicFile::commit() {
  if (!is_flushed_) DT_TRY_VOID(flush());
  DT_TRY_VOID(give_name());
  const int closed = ::close(std::exchange(fd_, -1));
  if (injected("close") || closed != 0) return tl::unexpected(error("close"));
  if (injected("rename") || ::rename(temporary_.c_str(), path_.c_str()) != 0) return tl::unexpected(error("rename"));
  is_named_ = false;
  // After this fsync the rename survives a power failure. An error of the fsync is not returned, because the new file
  // is already in place, and callers take an error to mean that the old file is still there.
  const int fd = ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
  return {};
}

Result<> write_file_atomic(const std::string& path, std::string_view content) {
  DT_TRY(AtomicFile file, AtomicFile::create(path));
  DT_TRY_VOID(file.write(content));
  return file.commit();
}

Result<> make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(Code::kUsage, "cannot create the directory '{}': {}", path, error.message());
  return {};
}

std::vector<std::string> split_paths(const std::string& list, const std::string& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(directory) / list, ignored)) return {list};
  std::vector<std::string> paths;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(';', begin), list.size());
    if (end > begin) paths.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

}  // namespace dtrain
