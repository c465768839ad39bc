#include "role/setup/gpu_claim.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

namespace dtrain::role {
namespace {

// O_NOFOLLOW and O_NONBLOCK, because another user may have put a link or a pipe in the file's place.
UniqueFd open_own_file(const std::string& path) {
  constexpr mode_t kOwnerOnly = 0600;
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kOwnerOnly));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) return {};
  return file;
}

struct flock lock_of(off_t begin, off_t count) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = count;
  return lock;
}

}  // namespace

GpuClaim::GpuClaim(const std::string& directory, const std::string& pci_bus_id)
    : file_(directory.empty() ? UniqueFd()
                              : open_own_file(fmt::format("{}/dtrain-{}-gpu-{}", directory, ::geteuid(), pci_bus_id))) {
  // If the lock is taken, a process in another container has the same id; other_process finds it.
  struct flock own = lock_of(::getpid(), 1);
  if (file_.open()) (void)::fcntl(file_.get(), F_SETLK, &own);
}

std::optional<pid_t> GpuClaim::other_process() const {
  struct flock any = lock_of(0, 0);  // 0 bytes: up to the end; the own lock does not count
  if (!file_.open() || ::fcntl(file_.get(), F_GETLK, &any) != 0 || any.l_type == F_UNLCK) return std::nullopt;
  return any.l_pid;
}

}  // namespace dtrain::role
