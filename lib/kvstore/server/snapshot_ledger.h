// Which snapshots of one server are complete, written, kept and waited for. It decides only; Snapshots writes the
// files.
//
// Snapshot k has all parameter slices at version k * n. Two rules make sure that all servers of a job have a snapshot
// in common, however fast or slow their disks are:
//
//   - A slice hands out no weights of version (k + 1) * n before snapshot k is durable or has failed.
//   - The newest snapshots_kept() durable ones are kept; older ones are deleted.
//
// Suppose that a server has snapshot k in BSP. A worker has then computed step k * n - 1, so every slice of every
// server has handed out weights of that version, which is (k - 1) * n or later. Each server therefore has snapshot k -
// 2, or a later one. If m is the newest snapshot of any server, the newest one of each server is m - 2, m - 1 or m.
// With three kept, each server has m - 2.
//
// In the other schemes, a version counts the rounds of all groups. While one slice waits at version (j + 1) * n for
// snapshot j, each of the other groups can complete one more round, so with G groups the newest snapshot of another
// server is at most j + 1 + (G - 1) / n, rounded down. That number of older ones must be kept in addition. A lost
// worker may leave its last gradient in some slices and not in others, and their versions then stay apart; the number
// of kept snapshots allows for n lost workers since the last restore.
//
// A snapshot that could not be written, because the disk was full, is an exception: it does not exist, so there may be
// no common snapshot until all servers have written a newer one.
//
// A server has in memory the snapshot that is being written and one more that is complete; in schemes with several
// groups, also (G - 1) / n more, and those of which parts are still missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "kvstore/server/snapshot_file.h"
#include "sync/machine.h"

namespace dtrain::kvstore {

// How many durable snapshots a server must keep: 3 in BSP.
size_t snapshots_kept(const sync::Policy& policy, uint64_t every);

// Not thread-safe.
class SnapshotLedger {
 public:
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  // `durable`: the numbers of the snapshots that exist already, sorted. `slices` must be at least 1.
  SnapshotLedger(uint64_t every, size_t slices, size_t kept, std::vector<uint64_t> durable);

  // A slice has reached a version that is a multiple of `every`. A part that the slice took earlier for the same
  // snapshot is replaced.
  void take(SnapshotPart part);

  struct Complete {
    uint64_t number = 0;
    std::vector<SnapshotPart> parts;  // of all slices, sorted by slice
  };
  // Whether begin_write() returns a snapshot: one is complete, and none is being written.
  [[nodiscard]] bool has_complete() const;
  // The oldest complete snapshot, which is being written from now on.
  std::optional<Complete> begin_write();
  // The outcome of the write. Returns true if the snapshot is now durable.
  bool end_write(bool is_written);
  // True if the snapshot that is being written has become invalid.
  [[nodiscard]] bool is_abandoned() const { return writing_ && is_abandoned_; }

  // All slices return to snapshot `number`. Later ones are invalid, and so is all that is in memory.
  void go_back(uint64_t number);
  // A slice got values of this version from a worker, perhaps of an earlier version than it had. The snapshots of this
  // version and of later ones are invalid.
  void begin_at(uint64_t version);

  // Weights of this version and of later ones must not be handed out yet. kNoLimit: all may be handed out.
  [[nodiscard]] uint64_t limit() const;
  [[nodiscard]] const std::vector<uint64_t>& durable() const { return durable_; }  // sorted
  // Files that must be deleted before the next snapshot is written. Each is returned once.
  std::vector<uint64_t> take_outdated();
  [[nodiscard]] bool has_outdated() const { return !outdated_.empty(); }

 private:
  using Parts = std::map<SliceId, SnapshotPart>;
  [[nodiscard]] std::map<uint64_t, Parts>::const_iterator first_complete() const;
  // Makes the files invalid from this snapshot on.
  void drop_files(uint64_t first);

  const uint64_t every_;
  const size_t slices_;
  const size_t kept_;
  std::map<uint64_t, Parts> in_memory_;  // the snapshots that are not being written yet, by number
  std::optional<uint64_t> writing_;
  bool is_abandoned_ = false;
  std::vector<uint64_t> durable_;
  std::vector<uint64_t> outdated_;
};

}  // namespace dtrain::kvstore
