#include "data/loading/epoch_order.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "support/catch.h"

using namespace dtrain::data;

namespace {

constexpr int64_t kMiB = 1 << 20;

// Records of 40 to 160 KiB, as photographs have.
int64_t photograph_bytes(int64_t record) {
  return (40 + record * 7919 % 121) << 10;
}

int64_t bytes_in(const Share& chunk) {
  int64_t bytes = 0;
  for (int64_t record = chunk.begin; record < chunk.end; record++) bytes += photograph_bytes(record);
  return bytes;
}

}  // namespace

TEST_CASE("chunks of a share have the size that was asked for, and cover it", "[data]") {
  const Share share{100, 5100};
  for (const int64_t mebibytes : {1, 4, 64, 10000}) {
    INFO(mebibytes << " MiB");
    const std::vector<Share> chunks = chunks_of(share, mebibytes * kMiB, photograph_bytes);
    int64_t next = share.begin;
    for (size_t i = 0; i < chunks.size(); i++) {
      REQUIRE(chunks[i].begin == next);
      next = chunks[i].end;
      const double part = static_cast<double>(bytes_in(chunks[i])) / static_cast<double>(mebibytes * kMiB);
      if (mebibytes < 10000) CHECK((0.6 < part && part < 1.4));
      // All have the same size, to about a record.
      CHECK(std::abs(bytes_in(chunks[i]) - bytes_in(share) / std::ssize(chunks)) <= 160 << 10);
    }
    CHECK(next == share.end);
  }
  CHECK(chunks_of(share, 0, photograph_bytes) == std::vector<Share>{share});
  CHECK(chunks_of({3, 3}, kMiB, photograph_bytes) == std::vector<Share>{{3, 3}});
  CHECK(chunks_of({3, 6}, 1, photograph_bytes).size() == 3);  // records that are larger than a chunk
}

TEST_CASE("a shuffled share is read chunk by chunk, each in another order in every epoch", "[data]") {
  const Share share{50, 1050};
  const EpochOrder order{.seed = 3, .chunk_bytes = 4 * kMiB};
  const std::vector<Share> chunks = chunks_of(share, order.chunk_bytes, photograph_bytes);
  REQUIRE(chunks.size() > 10);
  std::set<std::vector<int64_t>> orders, orders_of_chunks;
  for (int64_t epoch = 0; epoch < 4; epoch++) {
    const std::vector<int64_t> records = records_in_order(share, epoch, order, photograph_bytes);
    CHECK(records == records_in_order(share, epoch, order, photograph_bytes));
    REQUIRE(records.size() == 1000);
    std::vector<int64_t> begins;
    for (size_t at = 0; at < records.size();) {
      const auto chunk = std::ranges::find_if(chunks, [record = records[at]](const Share& candidate) {
        return candidate.begin <= record && record < candidate.end;
      });
      REQUIRE(chunk != chunks.end());
      begins.push_back(chunk->begin);
      const auto first = records.begin() + static_cast<ptrdiff_t>(at);
      std::vector<int64_t> window(first, first + chunk->size());
      CHECK_FALSE(std::ranges::is_sorted(window));
      std::ranges::sort(window);
      CHECK(window.front() == chunk->begin);
      CHECK(window.back() == chunk->end - 1);
      CHECK(std::ranges::adjacent_find(window) == window.end());
      at += window.size();
    }
    orders.insert(records);
    orders_of_chunks.insert(begins);
  }
  CHECK(orders.size() == 4);
  CHECK(orders_of_chunks.size() == 4);
}

TEST_CASE("a chunk that holds the whole share gives the order of a share without chunks", "[data]") {
  const Share share{0, 300};
  CHECK(records_in_order(share, 2, {.seed = 9, .chunk_bytes = 1000 * kMiB}, photograph_bytes) ==
        records_in_order(share, 2, {.seed = 9}, photograph_bytes));
  std::vector<int64_t> by_number(300);
  std::iota(by_number.begin(), by_number.end(), 0);
  CHECK(records_in_order(share, 2, {.shuffle = false, .chunk_bytes = kMiB}, photograph_bytes) == by_number);
  CHECK(records_in_order({7, 7}, 0, {.chunk_bytes = kMiB}, photograph_bytes).empty());
}
