// Whose records are whose. One rule for every store, scheme and reader (distributed.md R-G8, R-F13; formats.md 3.8): a
// share is an interval of record numbers, the shares of a job are disjoint and complete, and their borders are rounded
// half away from 0.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// Record numbers [begin, end).
struct Share {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
  bool operator==(const Share&) const = default;
};

// Border j is round(N j / W), in whole numbers.
Share equal_share(int64_t records, int64_t rank, int64_t workers);
std::vector<Share> equal_shares(int64_t records, int64_t workers);  // by rank

// In proportion to the workers' speeds m, which are above 0: border j is round(N (m_1 + ... + m_j) / C), C their sum.
std::vector<Share> shares_by_speed(int64_t records, const std::vector<double>& speeds);

// The shares of complete ones after `turn` rotations (R-G9): laid end to end in the order of ranks as before, but
// beginning with rank `turn`, modulo W. So each rank keeps the size of its share, and with it its batches and the time
// that they take, and with equal sizes rank r has what rank r - turn had.
std::vector<Share> rotated(const std::vector<Share>& shares, int64_t turn);

// ceil(largest share / batch_size): the same number for all workers that wait for each other (R-F13).
int64_t batches_per_epoch(int64_t largest_share, int64_t batch_size);

}  // namespace dtrain::data
