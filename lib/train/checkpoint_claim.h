// The right to write the checkpoints of a prefix, which one run at a time has.
//
// A run that is started again, on other hosts perhaps, cannot know whether the one before it has ended: its worker 0
// may be stopped, or cut off from all but the shared disk. So each run takes the next attempt, a number in the file
// PREFIX.lock, and puts files in place only while it has the newest one. The last attempt that was taken wins, whatever
// the earlier ones still try.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"
#include "base/waits.h"

namespace dtrain::train {

class CheckpointClaim;
// Takes this process's claim, or returns the one that it has. A null claim: nobody else writes the checkpoints.
using TakeClaim = std::function<Result<CheckpointClaim*>()>;

inline constexpr const char* kClaimSuffix = ".lock";

// One thread calls it at a time. The kernel releases its locks when the process ends, in whatever way. On file systems
// without locks the number alone decides.
class CheckpointClaim {
 public:
  enum class Take : uint8_t {
    kIfFree,  // refuse with Code::kUsage if the run that has the newest attempt is alive
    kAlways,  // take it from a run that may still be alive
  };

  // Takes the next attempt at the checkpoints of `prefix`, in whose directory files can be made. `owner`: names this
  // run to the others, in a line of text, as in "runs/lenet on node1, process 4711". Code::kData: the file cannot be
  // written, or another process keeps it locked for long.
  static Result<std::unique_ptr<CheckpointClaim>> take(const std::string& prefix, const std::string& owner, Take how,
                                                       Waits& waits);
  // Removes the file if this was the first attempt and put nothing in place.
  ~CheckpointClaim();
  CheckpointClaim(const CheckpointClaim&) = delete;
  CheckpointClaim& operator=(const CheckpointClaim&) = delete;

  // Calls `replace` while no other run can take the next attempt or replace files. Code::kUsage, without a call:
  // another run has taken it. `replace` should be short, because others wait for its end.
  Result<> hold(const std::function<Result<>()>& replace);

  // From now on hold() returns Code::kPeerLost if `is_revoked` returns true. Any thread must be able to call it.
  void revoke_if(std::function<bool()> is_revoked) { is_revoked_ = std::move(is_revoked); }

  [[nodiscard]] uint64_t attempt() const { return attempt_; }

 private:
  CheckpointClaim(std::string prefix, Waits& waits) : prefix_(std::move(prefix)), waits_(waits) {}
  [[nodiscard]] std::string path() const { return prefix_ + kClaimSuffix; }
  Result<UniqueFd> open_locked();
  bool show_alive();
  Result<> write(const UniqueFd& file);

  std::string prefix_;
  Waits& waits_;
  uint64_t attempt_ = 0;
  bool has_replaced_ = false;
  std::function<bool()> is_revoked_;
  std::string text_;  // the content of the file while the claim holds
  UniqueFd alive_;    // has a lock as long as this process lives
};

}  // namespace dtrain::train
