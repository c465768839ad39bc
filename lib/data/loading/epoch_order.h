// The order in which the records of a share are read in an epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/records/share.h"

namespace dtrain::data {

struct EpochOrder {
  bool shuffle = true;      // whether the order is random; false: records are read in order of number
  uint64_t seed = 0;        // equal seeds give the same order for the same epoch
  int64_t chunk_bytes = 0;  // size of a chunk; 0: the whole share is one chunk
};

// Cuts a share into chunks of consecutive records. The number of chunks is the size of the share divided by
// `chunk_bytes`, rounded to the nearest integer; their sizes differ by about a record. So a chunk has from two thirds
// to four thirds of `chunk_bytes`, unless the whole share is smaller or a single record is larger. `stored_bytes` must
// return the size of a record. If `chunk_bytes` is 0, there is one chunk.
std::vector<Share> chunks_of(const Share& share, int64_t chunk_bytes,
                             const std::function<int64_t(int64_t)>& stored_bytes);

// The record numbers of the share in the order of `epoch`. When shuffled, the chunks are in random order, and so are
// the records within each chunk; all records of a chunk come before those of the next chunk. Large chunks are read from
// the disk in few large pieces, but need as much memory for the data that is read ahead.
std::vector<int64_t> records_in_order(const Share& share, int64_t epoch, const EpochOrder& order,
                                      const std::function<int64_t(int64_t)>& stored_bytes);

}  // namespace dtrain::data
