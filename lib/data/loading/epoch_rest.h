// The rest of an epoch that other workers, or workers with another batch size, have begun.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/loading/epoch_order.h"
#include "data/records/share.h"

namespace dtrain::data {

// What one set of workers has read of an epoch: each has read the first `records` records of its part.
struct ReadPart {
  std::vector<Share> shares;  // the part of each worker, indexed by rank
  int64_t records = 0;
  bool operator==(const ReadPart&) const = default;
};

// The shares of the first entry of `read` are intervals of record numbers, and each was read in the order of the epoch.
// Those of each later entry are intervals of the list of records that were left after the earlier ones, in its order.
struct EpochRest {
  int64_t first_step = 0;      // the first step of the epoch that the present workers make
  std::vector<ReadPart> read;  // empty: the epoch is not divided
  bool operator==(const EpochRest&) const = default;
};

// The number of records that are left, and their numbers.
int64_t count_left(const EpochRest& rest);
std::vector<int64_t> records_left(const EpochRest& rest, int64_t epoch, const EpochOrder& order,
                                  const std::function<int64_t(int64_t)>& stored_bytes);
// The order in which one of `workers` reads the rest, in batches of `batch_size`: its part begins at the place of
// `first_step`. Places before it hold records of the part too, because a part that ends within a batch is continued
// from the beginning of the order. Empty if no record is left.
std::vector<int64_t> order_of_rest(const EpochRest& rest, const std::vector<int64_t>& left, int64_t rank,
                                   int64_t workers, int64_t batch_size);

}  // namespace dtrain::data
