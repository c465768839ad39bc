#include "train/checkpoint_claim.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/printable.h"

namespace dtrain::train {
namespace {

// Bytes of the file that are locked; they need not exist.
constexpr off_t kAliveByte = 1'000'000;    // by the run that has an attempt, until it ends
constexpr off_t kReplaceByte = 1'000'001;  // while an attempt is taken or files are put in place

// Longer than a live process needs to rename some files, and than NFS keeps the locks of a host that has died.
constexpr auto kLockedMax = std::chrono::seconds(120);
constexpr auto kLockedPoll = std::chrono::milliseconds(20);

enum class Lock : uint8_t { kOwn, kTaken, kUnsupported };

// A lock of the open file, not of the process, so that claims of one process exclude each other, too.
Lock lock_byte(const UniqueFd& file, off_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return Lock::kOwn;
  return errno == EAGAIN || errno == EACCES ? Lock::kTaken : Lock::kUnsupported;
}

// Whether the open file has not been deleted.
bool is_at(const std::string& path, const UniqueFd& file) {
  struct stat at {
  }, open{};
  return ::stat(path.c_str(), &at) == 0 && ::fstat(file.get(), &open) == 0 && at.st_dev == open.st_dev &&
         at.st_ino == open.st_ino;
}

// Reads the number from "attempt 3: RUN"; 0 if there is none.
uint64_t attempt_of(const std::string& text) {
  constexpr std::string_view kBegin = "attempt ";
  uint64_t attempt = 0;
  if (text.starts_with(kBegin)) std::from_chars(text.data() + kBegin.size(), text.data() + text.size(), attempt);
  return attempt;
}

// Returns the run that the file names, in quotes.
std::string owner_in(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? "unknown"
                                    : "'" + printable(text.substr(colon + 2, text.find('\n') - colon - 2)) + "'";
}

}  // namespace

// Opens the file anew each time, because it may have been deleted, and so that NFS shows what other hosts have written.
Result<UniqueFd> CheckpointClaim::open_locked() {
  const auto begin = std::chrono::steady_clock::now();
  const Waits::Wait wait(waits_,
                         [path = path()] { return fmt::format("the lock of '{}', which another run holds", path); });
  for (;;) {
    UniqueFd file(::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file.open()) return fail(Code::kData, "cannot open '{}': {}", path(), std::strerror(errno));
    if (lock_byte(file, kReplaceByte) != Lock::kTaken && is_at(path(), file)) return file;
    if (std::chrono::steady_clock::now() - begin > kLockedMax) {
      return fail(Code::kData,
                  "'{}' has been locked for {} s by another process that writes checkpoints but stands still (newest "
                  "run: {}); end that process, or give another --save-model-prefix",
                  path(), std::chrono::seconds(kLockedMax).count(), owner_in(read_file(path()).value_or("")));
    }
    std::this_thread::sleep_for(kLockedPoll);
  }
}

Result<> CheckpointClaim::write(const UniqueFd& file) {
  const auto size = static_cast<ssize_t>(text_.size());
  if (::pwrite(file.get(), text_.data(), text_.size(), 0) == size && ::ftruncate(file.get(), size) == 0 &&
      ::fsync(file.get()) == 0) {
    return {};
  }
  return fail(Code::kData, "cannot write '{}': {}", path(), std::strerror(errno));
}

Result<std::unique_ptr<CheckpointClaim>> CheckpointClaim::take(const std::string& prefix, const std::string& owner,
                                                               Take how, Waits& waits) {
  std::unique_ptr<CheckpointClaim> claim(new CheckpointClaim(prefix, waits));
  DT_TRY(const UniqueFd file, claim->open_locked());
  DT_TRY(const std::string before, read_file(claim->path()));
  if (!claim->show_alive() && how == Take::kIfFree) {
    return fail(Code::kUsage,
                "another run, {}, is writing checkpoints '{}-...': give another --save-model-prefix to train at the "
                "same time, or stop that run",
                owner_in(before), prefix);
  }
  claim->attempt_ = attempt_of(before) + 1;
  claim->text_ = fmt::format("attempt {}: {}\n", claim->attempt_, printable(owner));
  DT_TRY_VOID(claim->write(file));
  return claim;
}

CheckpointClaim::~CheckpointClaim() {
  const bool is_unused = attempt_ == 1 && !has_replaced_;
  if (is_unused && read_file(path()).value_or("") == text_) ::unlink(path().c_str());
}

// Locks the byte that shows others that this process lives. Returns false if another process has locked it, which may
// still live although its attempt is no longer the newest.
bool CheckpointClaim::show_alive() {
  if (!is_at(path(), alive_)) alive_ = UniqueFd(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  return !alive_.open() || lock_byte(alive_, kAliveByte) != Lock::kTaken;
}

Result<> CheckpointClaim::hold(const std::function<Result<>()>& replace) {
  DT_TRY(const UniqueFd file, open_locked());
  if (is_revoked_ && is_revoked_()) {
    return fail(Code::kPeerLost, "this worker has lost its seat, so it puts no checkpoint '{}-...' in place", prefix_);
  }
  DT_TRY(const std::string now, read_file(path()));
  // An empty file was deleted and made anew by open_locked().
  if (now.empty()) {
    DT_TRY_VOID(write(file));
  } else if (now != text_) {
    return fail(Code::kUsage,
                "checkpoints '{}-...' now belong to another run, {}, so this run (attempt {}) must not write them and "
                "ends; give each run its own --save-model-prefix if both shall train",
                prefix_, owner_in(now), attempt_);
  }
  has_replaced_ = true;
  std::ignore = show_alive();  // for the case that an earlier run had the lock until now, or that the file is new
  return replace();
}

}  // namespace dtrain::train
