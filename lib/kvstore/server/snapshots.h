// Snapshots of one server: its parameter slices at one version, in files from which the server, or another process in
// its place, can continue (Shard::restore).
//
// Each slice takes its part by itself when its version becomes a multiple of n. In BSP, snapshot k is therefore common
// to all servers without any message. A part lends the slice's values, so taking it costs nothing; the next update of
// the slice copies them, which needs memory for the weights and the optimizer state once more. Statistics have no
// snapshots, and neither have servers that only sum (ShardOptions::sums_only), because their weights are on the
// workers.
//
// A thread of its own writes the files, in the background. If it is slow, answers wait: see snapshot_ledger.h, which
// also says which snapshots are kept, and why all servers have one in common. If a file cannot be written, training
// continues, that snapshot does not exist, and later ones are tried again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "kvstore/server/snapshot_file.h"
#include "kvstore/server/snapshot_ledger.h"

namespace dtrain::kvstore {

struct SnapshotOptions {
  uint64_t every = 0;          // n: snapshot k has the slices at version k * n; 0: no snapshots
  std::string directory = {};  // is created if it does not exist; several servers and jobs may use the same one
  std::string job = {};        // identifies the job; any text that only its own processes have
  // 0: this server takes part from the start of the job, so older files of its rank are of no use. Otherwise it takes
  // the place of a lost server, whose snapshots it takes over. Must be larger than that of each server that had this
  // rank and wrote snapshots. One of them may still live, if it was suspended, and no longer harms these files.
  uint64_t life = 0;
  // Called with the numbers of all durable snapshots, sorted, after they have changed; on the writer's thread.
  std::function<void(std::vector<uint64_t> durable)> on_durable = nullptr;
  // Called for a snapshot that could not be written; on the writer's thread.
  std::function<void(uint64_t number, const Error&)> on_failure = nullptr;
  Log log = Log::silent();
  AtomicFile::Fault fault = nullptr;                 // for tests; see AtomicFile
  std::function<void(uint64_t)> on_write = nullptr;  // for tests: called on the writer's thread before it writes a file
};

// Thread-safe.
class Snapshots {
 public:
  // Reads the directory, takes over the snapshots of the last server with this rank by renaming them, and removes its
  // other and unfinished files. Files that are damaged, or of another job or layout, are named in the log and not used;
  // those of other jobs are never deleted or replaced. `on_limit` is called
  // on the writer's thread whenever limit() may have risen. Code::kUsage if the directory cannot be used.
  static Result<std::unique_ptr<Snapshots>> open(SnapshotOptions options, SnapshotLayout layout, size_t kept,
                                                 std::function<void()> on_limit);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // The numbers of the snapshots that can be restored, sorted.
  [[nodiscard]] std::vector<uint64_t> durable() const DT_EXCLUDES(mutex_);
  [[nodiscard]] uint64_t every() const { return options_.every; }

  // The following functions are for the slices and return at once.
  void take(SnapshotPart part) DT_EXCLUDES(mutex_);     // see SnapshotLedger
  void begin_at(uint64_t version) DT_EXCLUDES(mutex_);  // see SnapshotLedger
  // Weights of this version and of later ones wait until snapshot awaited(limit()) is written.
  [[nodiscard]] const std::atomic<uint64_t>& limit() const { return limit_; }
  [[nodiscard]] uint64_t awaited(uint64_t limit) const { return limit / options_.every - 1; }

  // Code::kNotFound if the snapshot is not durable; kData if the file is damaged.
  [[nodiscard]] Result<std::vector<SnapshotPart>> read(uint64_t number) const DT_EXCLUDES(mutex_);
  // The slices have returned to this snapshot: later ones are deleted, and so are parts in memory. Waits until the
  // files are gone, also from the disk. Code::kData if a file cannot be deleted.
  Result<> go_back(uint64_t number) DT_EXCLUDES(mutex_);
  // Ends the writer's thread. A snapshot that is being written is abandoned, and none is written anymore.
  void stop() DT_EXCLUDES(mutex_);
  // The same, and deletes the files of the job's snapshots, which nobody needs anymore.
  void discard() DT_EXCLUDES(mutex_);

 private:
  Snapshots(SnapshotOptions options, SnapshotLayout layout, SnapshotLedger ledger, std::function<void()> on_limit);
  [[nodiscard]] std::string path_of(uint64_t number) const;
  void serve() DT_EXCLUDES(mutex_);
  // The steps of the thread. They release the mutex while they use the disk or call a function of the options.
  void delete_outdated() DT_REQUIRES(mutex_);
  void write_next() DT_REQUIRES(mutex_);
  void tell_durable() DT_REQUIRES(mutex_);
  void release() DT_REQUIRES(mutex_);
  [[nodiscard]] Result<> write(const SnapshotLedger::Complete& snapshot) DT_EXCLUDES(mutex_);
  [[nodiscard]] bool is_abandoned() const DT_EXCLUDES(mutex_);
  void report(uint64_t number, const Result<>& written) DT_EXCLUDES(mutex_);
  // To be called after each change of the ledger.
  void on_change() DT_REQUIRES(mutex_);

  const SnapshotOptions options_;
  const SnapshotLayout layout_;
  const std::function<void()> on_limit_;
  std::atomic<uint64_t> limit_ = SnapshotLedger::kNoLimit;
  bool is_failing_ = false;  // whether the last write has failed; used by the thread only
  mutable Mutex mutex_;
  ConditionVariable changed_;
  SnapshotLedger ledger_ DT_GUARDED_BY(mutex_);
  std::vector<uint64_t> told_ DT_GUARDED_BY(mutex_);  // the numbers in the last call of on_durable
  bool is_busy_ DT_GUARDED_BY(mutex_) = false;        // whether the thread makes a step
  Result<> deleted_ DT_GUARDED_BY(mutex_);            // the first error of a deletion since the last go_back()
  bool has_risen_ DT_GUARDED_BY(mutex_) = false;      // whether limit_ has risen since the last call of on_limit
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dtrain::kvstore
