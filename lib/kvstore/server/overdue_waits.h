// The workers' waits that have become long enough to be logged, collected over all slices of a server. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kvstore/wire/header.h"

namespace dtrain::kvstore {

class OverdueWaits {
 public:
  using Clock = std::chrono::steady_clock;
  struct Wait {
    uint32_t worker = 0;  // rank of the worker that waits
    Clock::time_point since = {};
    SliceId slice;
    uint64_t version = 0;                // version of the weights that the worker waits for
    bool lacks_value = false;            // worker 0 has not set the slice's value yet
    std::vector<uint32_t> missing = {};  // ranks that the slice waits for
    // The weights are there, but may be sent only when this snapshot is written.
    std::optional<uint64_t> snapshot = {};
  };

  // Adds a wait. All waits for one slice must be added one after the other: a worker may wait twice for a slice, which
  // counts only once, and only the slice that was added last is remembered.
  void add(const Wait& wait);
  // One line for each worker, sorted by rank. It lists the workers that any of its slices waits for, and names the
  // slice that has waited longest:
  //   "worker 3 waits 31 s for 14 slices (first: key 0 slice 0 version 7); missing: worker 1"
  // If it waits for a snapshot to be written, the line ends with "until snapshot 7 is written", without or after what
  // else is missing.
  [[nodiscard]] std::vector<std::string> lines(Clock::time_point now) const;

 private:
  struct WorkerWaits {
    Wait first;    // the worker's oldest wait
    SliceId last;  // the slice that was added last
    size_t slices = 0;
    bool lacks_value = false;
    std::set<uint32_t> missing;
    std::optional<uint64_t> snapshot;
  };
  std::map<uint32_t, WorkerWaits> workers_;
};

}  // namespace dtrain::kvstore
