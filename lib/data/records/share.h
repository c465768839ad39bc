// The rule by which records are divided among workers. It is the same for every store, scheme and reader. A share is an
// interval of record numbers. The shares of a job do not overlap and cover all records, and their borders are rounded
// half away from 0.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// The records with numbers `begin` to `end` - 1.
struct Share {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
  bool operator==(const Share&) const = default;
};

// Equal shares: border j is round(N j / W), computed in integers, for N records and W workers.
Share equal_share(int64_t records, int64_t rank, int64_t workers);
std::vector<Share> equal_shares(int64_t records, int64_t workers);  // the share of each worker, indexed by rank

// Shares in proportion to the workers' speeds m, which are above 0: border j is round(N (m_1 + ... + m_j) / C), where C
// is the sum of all speeds.
std::vector<Share> shares_by_speed(int64_t records, const std::vector<double>& speeds);

// Shares that cover all records, after `turn` rotations: they are laid end to end in order of rank as before, but
// beginning with rank `turn` modulo W. Each rank keeps the size of its share, and therefore its number of batches and
// their duration. If all sizes are equal, rank r gets the share that rank r - turn had.
std::vector<Share> rotated(const std::vector<Share>& shares, int64_t turn);

// The number of batches in an epoch of workers that wait for each other: ceil(largest_share / batch_size).
int64_t batches_per_epoch(int64_t largest_share, int64_t batch_size);

}  // namespace dtrain::data
