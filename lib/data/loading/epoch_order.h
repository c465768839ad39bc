// In which order the records of a share are read in an epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/records/share.h"

namespace dtrain::data {

struct EpochOrder {
  bool shuffle = true;      // else by number
  uint64_t seed = 0;        // equal seeds give equal orders of the same epoch
  int64_t chunk_bytes = 0;  // 0: the whole share is one chunk
};

// Cuts a share into as many chunks of consecutive records as have `chunk_bytes` each, to the nearest number, and of
// equal size to about a record. So a chunk has from two thirds to four thirds of `chunk_bytes`, unless the whole share
// has less or a record has more. `stored_bytes` returns the size of a record. 0: one chunk.
std::vector<Share> chunks_of(const Share& share, int64_t chunk_bytes,
                             const std::function<int64_t(int64_t)>& stored_bytes);

// The record numbers of the share in the order of `epoch`. Shuffled, all records of a chunk come before those of the
// next one: chunks are in random order, and so are the records of each. Large chunks are read from the disk in few
// pieces and need as much memory for what was read ahead.
std::vector<int64_t> records_in_order(const Share& share, int64_t epoch, const EpochOrder& order,
                                      const std::function<int64_t(int64_t)>& stored_bytes);

}  // namespace dtrain::data
