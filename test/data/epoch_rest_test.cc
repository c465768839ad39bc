#include "data/loading/epoch_rest.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;

namespace {

constexpr int64_t kRestEpoch = 3;

// What is read from `step` on, `steps` batches.
std::vector<int64_t> read_batches(const std::vector<int64_t>& order, int64_t first, int64_t count) {
  std::vector<int64_t> records;
  for (int64_t place = first; place < first + count; place++) {
    records.push_back(order[static_cast<size_t>(place) % order.size()]);
  }
  return records;
}

}  // namespace

// The number of workers and the batch size change up to three times within an epoch, at random steps.
TEST_CASE("each record is read once in an epoch whose workers change", "[data]") {
  for (uint64_t seed = 0; seed < 200; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kShuffle);
    const auto draw = [&](int64_t low, int64_t high) { return low + random.below(high - low + 1); };
    const int64_t records = draw(20, 300);
    const EpochOrder order{.shuffle = draw(0, 1) == 1, .seed = seed};
    const auto bytes = [](int64_t) { return int64_t{1}; };
    std::vector<int> times(static_cast<size_t>(records), 0);
    EpochRest rest;
    const int64_t changes = draw(1, 3);
    for (int64_t change = 0; change <= changes; change++) {
      const int64_t workers = draw(1, 5), batch = draw(1, 7);
      const std::vector<int64_t> left = records_left(rest, kRestEpoch, order, bytes);
      const int64_t count = change == 0 ? records : static_cast<int64_t>(left.size());
      CHECK(count_left(rest) == static_cast<int64_t>(left.size()));
      const bool last = change == changes;
      const int64_t smallest = count / workers;
      const int64_t read = last ? (count + workers - 1) / workers : draw(0, smallest / batch) * batch;
      rest.first_step = change == 0 ? 0 : draw(0, 9);
      for (int64_t rank = 0; rank < workers; rank++) {
        const Share share = equal_share(count, rank, workers);
        const std::vector<int64_t> own = change == 0 ? records_in_order(share, kRestEpoch, order, bytes)
                                                     : order_of_rest(rest, left, rank, workers, batch);
        if (own.empty()) continue;
        const int64_t size = last ? share.size() : read;
        for (const int64_t record : read_batches(own, rest.first_step * batch, size))
          times[static_cast<size_t>(record)]++;
      }
      rest.read.push_back({equal_shares(count, workers), read});
    }
    CHECK(std::ranges::all_of(times, [](int count) { return count == 1; }));
  }
}
