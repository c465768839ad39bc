#include "data/records/share.h"

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace dtrain::data {

Share equal_share(int64_t records, int64_t rank, int64_t workers) {
  DT_CHECK(workers > 0 && rank >= 0 && rank < workers, "rank {} of {}", rank, workers);
  // round(N j / W), half away from 0, in integers
  const auto border = [&](int64_t j) { return (2 * records * j + workers) / (2 * workers); };
  return {border(rank), border(rank + 1)};
}

std::vector<Share> equal_shares(int64_t records, int64_t workers) {
  std::vector<Share> shares;
  for (int64_t rank = 0; rank < workers; rank++) shares.push_back(equal_share(records, rank, workers));
  return shares;
}

std::vector<Share> shares_by_speed(int64_t records, const std::vector<double>& speeds) {
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<Share> shares;
  double sum = 0;
  int64_t begin = 0;
  for (const double speed : speeds) {
    DT_CHECK(speed > 0 && std::isfinite(all),
             "the speed {} must be above 0, and the sum of the speeds, {}, must be finite", speed, all);
    sum += speed;
    // Sums are added in the same order as in `all`, so the last sum equals `all`, and the last border is the number of
    // records.
    const int64_t end = std::llround(static_cast<double>(records) * sum / all);
    shares.push_back({begin, end});
    begin = end;
  }
  return shares;
}

std::vector<Share> rotated(const std::vector<Share>& shares, int64_t turn) {
  const size_t workers = shares.size();
  std::vector<Share> turned(workers);
  int64_t begin = 0;
  for (size_t place = 0; place < workers; place++) {
    const size_t rank = (static_cast<size_t>(turn) + place) % workers;
    turned[rank] = {begin, begin + shares[rank].size()};
    begin = turned[rank].end;
  }
  return turned;
}

int64_t batches_per_epoch(int64_t largest_share, int64_t batch_size) {
  DT_CHECK(batch_size > 0, "batch size {}", batch_size);
  return (largest_share + batch_size - 1) / batch_size;
}

}  // namespace dtrain::data
