// The file of a snapshot: all parameter slices of one server at one version. docs/formats.md, "Snapshots of servers",
// describes its bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "kvstore/counters.h"
#include "kvstore/server/versioned_array.h"
#include "kvstore/wire/header.h"
#include "kvstore/wire/placement.h"

namespace dtrain::kvstore {

// One slice in a snapshot.
struct SnapshotPart {
  SliceId id = {};
  Counters counters = {};                    // `updates` is the slice's version
  std::optional<RateChange> next_rate = {};  // a change of the learning rate that has not taken effect yet
  std::vector<uint32_t> group_of = {};       // the group of each worker, indexed by worker
  LentValues weights = {};                   // they do not change while the part exists, nor does the state
  std::vector<LentValues> states = {};       // the optimizer state, indexed by slot
};

// What all snapshots of one server have in common. A file that has something else is refused.
struct SnapshotLayout {
  std::string job = {};            // identifies the job; any text that only its own processes have
  uint32_t server = 0;             // rank of the server
  uint64_t every = 1;              // snapshot k has the slices at version k * every
  uint32_t workers = 0;            // number of workers in the policy
  uint32_t states = 0;             // number of arrays of the optimizer state
  std::vector<Slice> slices = {};  // the parameter slices of the server, sorted by (key, part)
};

// Writes snapshot `number` under a temporary name, syncs it, and renames it (AtomicFile). `parts` has one part for each
// slice of the layout, in the same order. Fails with Code::kUnavailable if is_abandoned() becomes true before the file
// is complete.
Result<> write_snapshot(const std::string& path, const SnapshotLayout& layout, uint64_t number,
                        std::span<const SnapshotPart> parts, const std::function<bool()>& is_abandoned,
                        AtomicFile::Fault fault);

// Reads snapshot `number`. Code::kNotFound if there is no such file; kData if it is damaged, or of another job, server
// or layout. The file is not trusted: memory is allocated only for what the layout says.
Result<std::vector<SnapshotPart>> read_snapshot(const std::string& path, const SnapshotLayout& layout, uint64_t number);
// The same, but checks only, and needs no memory for the values.
Result<> verify_snapshot(const std::string& path, const SnapshotLayout& layout, uint64_t number);

}  // namespace dtrain::kvstore
