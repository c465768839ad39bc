#include "data/records/share.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;

TEST_CASE("shares are disjoint and complete, and their sizes differ by at most one record", "[data]") {
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

namespace {

int64_t sum_of_sizes(const std::vector<Share>& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0},
                         [](int64_t sum, const Share& share) { return sum + share.size(); });
}

// Each of `records` is in exactly one share, in any order of ranks.
void require_partition(std::vector<Share> shares, int64_t records) {
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t next = 0;
  for (const Share& share : shares) {
    REQUIRE(share.begin == next);
    REQUIRE(share.end >= share.begin);
    next = share.end;
  }
  REQUIRE(next == records);
}

}  // namespace

// Three groups, each at the speed of its slowest member.
TEST_CASE("shares follow the speeds of the workers", "[data]") {
  const std::vector<Share> shares = shares_by_speed(50000, {98, 98, 98, 59, 59, 59, 30, 30});
  std::vector<int64_t> borders;
  for (const Share& share : shares) borders.push_back(share.end);
  CHECK(borders == std::vector<int64_t>{9228, 18456, 27684, 33239, 38795, 44350, 47175, 50000});
}

TEST_CASE("equal speeds give equal shares", "[data]") {
  for (int64_t workers = 1; workers <= 40; workers++) {
    CHECK(shares_by_speed(1000, std::vector<double>(static_cast<size_t>(workers), 1.0)) == equal_shares(1000, workers));
  }
}

TEST_CASE("with any speeds each record is in exactly one share", "[data]") {
  std::mt19937_64 random(7);
  for (size_t workers = 1; workers <= 200; workers++) {
    INFO("workers " << workers);
    std::vector<double> speeds(workers);
    for (double& speed : speeds) speed = std::lognormal_distribution<double>(3, 2)(random);
    const auto records = std::uniform_int_distribution<int64_t>(1, 2000000)(random);
    const std::vector<Share> shares = shares_by_speed(records, speeds);
    require_partition(shares, records);
    const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    for (size_t i = 0; i < workers; i++) {
      const double exact = static_cast<double>(records) * speeds[i] / all;
      REQUIRE(std::abs(static_cast<double>(shares[i].size()) - exact) <= 1.001);
    }
  }
}

TEST_CASE("rotated shares of equal size go from rank to rank", "[data]") {
  const std::vector<Share> shares = equal_shares(400, 4);
  CHECK(rotated(shares, 0) == shares);
  CHECK(rotated(shares, 1) == std::vector<Share>{{300, 400}, {0, 100}, {100, 200}, {200, 300}});
  CHECK(rotated(shares, 4) == shares);
  std::vector<int64_t> seen(4, 0);
  for (int64_t turn = 0; turn < 4; turn++) seen[static_cast<size_t>(rotated(shares, turn)[2].begin / 100)]++;
  CHECK(seen == std::vector<int64_t>{1, 1, 1, 1});
}

TEST_CASE("rotated shares stay complete and keep their ranks' sizes", "[data]") {
  const std::vector<Share> shares = shares_by_speed(50000, {98, 98, 98, 59, 59, 59, 30, 30});
  CHECK(rotated(shares, 0) == shares);
  for (int64_t turn = 0; turn < 20; turn++) {
    INFO("turn " << turn);
    const std::vector<Share> turned = rotated(shares, turn);
    require_partition(turned, 50000);
    for (size_t rank = 0; rank < shares.size(); rank++) REQUIRE(turned[rank].size() == shares[rank].size());
    REQUIRE(turned[static_cast<size_t>(turn) % 8].begin == 0);
  }
  CHECK(sum_of_sizes(rotated(equal_shares(13, 3), 2)) == 13);
}
