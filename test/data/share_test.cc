#include <catch2/catch.hpp>

#include "data/loader.h"

using namespace dtrain;
using namespace dtrain::data;

TEST_CASE("shares are disjoint, complete and equal to a record", "[data]") {
  for (int64_t records = 0; records < 200; records++) {
    for (int64_t workers = 1; workers <= 10; workers++) {
      int64_t next = 0, smallest = records, largest = 0;
      for (int64_t rank = 0; rank < workers; rank++) {
        const Share share = equal_share(records, rank, workers);
        REQUIRE(share.begin == next);
        REQUIRE(share.end >= share.begin);
        next = share.end;
        smallest = std::min(smallest, share.size());
        largest = std::max(largest, share.size());
      }
      REQUIRE(next == records);
      REQUIRE(largest - smallest <= 1);
    }
  }
}

// The example of formats.md 3.8.
TEST_CASE("thirteen records on three workers with batches of four make two batches an epoch", "[data]") {
  CHECK(equal_share(13, 0, 3) == Share{0, 4});
  CHECK(equal_share(13, 1, 3) == Share{4, 9});
  CHECK(equal_share(13, 2, 3) == Share{9, 13});
  CHECK(batches_per_epoch(5, 4) == 2);
  CHECK(batches_per_epoch(10, 4) == 3);
  CHECK(batches_per_epoch(8, 4) == 2);
  // Half away from 0: border 1 of 5 over 2 is 3.
  CHECK(equal_share(5, 0, 2) == Share{0, 3});
}
