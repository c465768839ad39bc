// Tells the processes of a user that use the same GPU of this host from each other, so that they can warn.
//
// Each process that uses a GPU locks one byte, the one whose offset is its process id, in a file that is named after
// the user and the GPU. The kernel releases the lock when the process ends, however it ends, and tells who holds a
// lock. So nothing has to be written or cleaned up, and a claim never prevents another one. Processes of other users
// use other files, because anybody could hold a lock in a file that all users can open.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace dtrain::role {

class GpuClaim {
 public:
  // Claims the GPU until the object is destroyed. `directory`: for the file; it may be writable for everyone. If it is
  // empty, or the file cannot be made or belongs to another user, the claim has no effect. A process must have only one
  // claim to a GPU.
  GpuClaim(const std::string& directory, const std::string& pci_bus_id);

  // A process of this user with a claim to the same GPU; nullopt if there is none. 0: a process in another container,
  // whose id is not known here. If two processes make their claims at the same time, at least one sees the other.
  [[nodiscard]] std::optional<pid_t> other_process() const;

 private:
  UniqueFd file_;
};

}  // namespace dtrain::role
