#include "data/records/retrying_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace dtrain::data {
namespace {

using Clock = std::chrono::steady_clock;

// The pauses between tries.
constexpr std::array<std::chrono::milliseconds, RetryingFile::kTriesMax - 1> kPauses = {
    std::chrono::milliseconds(100), std::chrono::milliseconds(300), std::chrono::milliseconds(1'000),
    std::chrono::milliseconds(3'000), std::chrono::milliseconds(10'000)};

constexpr int kEndsEarly = 0;  // means that the file ends early; used in place of an errno

// Whether an error may be temporary: disks and file servers report faults of their own or of the network by these
// errors. FUSE reports ENOTCONN.
bool may_pass(int error) {
  constexpr std::array kPassing = {kEndsEarly, EIO,       ESTALE,   ETIMEDOUT,    EAGAIN,      EINTR,   EREMOTEIO,
                                   ENOTCONN,   EHOSTDOWN, ENETDOWN, EHOSTUNREACH, ENETUNREACH, ENOLINK, ECONNRESET};
  return std::ranges::find(kPassing, error) != kPassing.end();
}

std::string text_of(int error) {
  return error == kEndsEarly ? "the file ends before its stated size" : std::strerror(error);
}

}  // namespace

FileCalls FileCalls::of_system() {
  return {// O_NONBLOCK, so that opening a pipe does not wait for its writer.
          .open = [](const char* path) { return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); },
          .read = [](int fd, void* out, size_t bytes, int64_t offset) -> int64_t {
            return ::pread(fd, out, bytes, offset);
          },
          .pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); },
          .will_read = [](int fd, int64_t offset,
                          int64_t bytes) { ::posix_fadvise(fd, offset, bytes, POSIX_FADV_WILLNEED); }};
}

// The tries of one read, or of opening the file.
class RetryingFile::Tries {
 public:
  explicit Tries(const RetryingFile& file) : file_(file) {}

  // Called after a failure: waits until it is time for the next try. Returns an Error if no try is left.
  Result<> failed(int error, const std::string& where) {
    if (tries_ == 1) {
      begin_ = Clock::now();
      first_ = fmt::format("{}: {}", where, text_of(error));
    }
    if (!may_pass(error) || tries_ == kTriesMax) {
      return fail(Code::kDevice,
                  "{}: {} (after {} tr{} within {:.1f} s): check the disk or the file server, then start again", where,
                  text_of(error), tries_, tries_ == 1 ? "y" : "ies", seconds());
    }
    file_.calls_.pause(kPauses[static_cast<size_t>(tries_++) - 1]);
    return {};
  }

  // Logs a fault after which a retry succeeded. Only the first few are logged, because all of them would fill the log.
  void succeeded() const {
    constexpr uint64_t kLoggedMax = 8;
    if (tries_ == 1) return;
    const uint64_t count = ++file_.faults_;
    if (count > kLoggedMax && !std::has_single_bit(count)) return;
    file_.log_.warn("{}; try {} succeeded, after {:.1f} s (fault {} of this file)", first_, tries_, seconds(), count);
  }

 private:
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  const RetryingFile& file_;
  int tries_ = 1;
  Clock::time_point begin_;
  std::string first_;
};

Result<std::unique_ptr<RetryingFile>> RetryingFile::open(std::string path, const Log& log, FileCalls calls) {
  std::unique_ptr<RetryingFile> file(new RetryingFile(std::move(path), log, std::move(calls)));
  DT_TRY_VOID(file->open_first());
  return file;
}

Result<> RetryingFile::open_first() {
  Tries tries(*this);
  while (const int error = open_once(fd_, mark_)) {
    if (error == ENOENT) return fail(Code::kNotFound, "{}: no such file", path_);
    if (error == EISDIR) return fail(Code::kUsage, "{}: not a regular file", path_);
    if (!may_pass(error)) return fail(Code::kData, "{}: {}", path_, text_of(error));
    DT_TRY_VOID(tries.failed(error, path_));
  }
  tries.succeeded();
  size_ = mark_.size;
  return {};
}

int RetryingFile::open_once(UniqueFd& fd, Mark& mark) const {
  UniqueFd opened(calls_.open(path_.c_str()));
  if (!opened.open()) return errno;
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EISDIR;
  mark = {.size = status.st_size, .begin = {}};
  const int64_t got = calls_.read(opened.get(), mark.begin.data(), mark.begin.size(), 0);
  if (got < 0) return errno;
  if (got < std::min(std::ssize(mark.begin), mark.size)) return EIO;
  fd = std::move(opened);
  return 0;
}

Result<> RetryingFile::open_again() const {
  UniqueFd opened;
  Mark mark;
  // If the file cannot be opened, the next read fails too, and counts as a try of its own.
  if (open_once(opened, mark) != 0) return {};
  if (mark != mark_) {
    return fail(Code::kUsage,
                "{}: the file was replaced during the run (its size was {} bytes and is now {}, or its beginning "
                "differs); do not replace files that a run reads, and start again",
                path_, size_, mark.size);
  }
  // Keeps the descriptor's number, because other threads may be reading from it.
  ::dup3(opened.get(), fd_.get(), O_CLOEXEC);
  return {};
}

Result<> RetryingFile::read_at(int64_t offset, std::span<uint8_t> out) const {
  Tries tries(*this);
  while (!out.empty()) {
    const int64_t got = calls_.read(fd_.get(), out.data(), out.size(), offset);
    if (got > 0) {
      out = out.subspan(static_cast<size_t>(got));
      offset += got;
      continue;
    }
    if (got == 0 && offset >= size_) return fail(Code::kData, "{}: the file ends at offset {}", path_, offset);
    const int error = got == 0 ? kEndsEarly : errno;
    if (error == EINTR) continue;
    DT_TRY_VOID(tries.failed(error, fmt::format("{}: offset {}", path_, offset)));
    if (error == ESTALE) DT_TRY_VOID(open_again());
  }
  tries.succeeded();
  return {};
}

void RetryingFile::will_read(int64_t offset, int64_t bytes) const {
  // Announces the bytes in pieces: for each call, Linux reads at most the device's read-ahead, which is 128 KiB by
  // default, and ignores the rest.
  constexpr int64_t kPieceBytes = 128 << 10;
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    calls_.will_read(fd_.get(), offset + at, std::min(kPieceBytes, bytes - at));
  }
}

}  // namespace dtrain::data
