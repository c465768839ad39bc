#include "data/records/sharding_file.h"

#include <random>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;
using Catch::Matchers::Contains;

namespace {

std::vector<Share> shares_in(const std::string& text, int64_t workers, int64_t records, bool allow_gaps = false) {
  const auto fractions = parse_sharding_file(text, {"data_sharding", workers, allow_gaps});
  INFO((fractions ? "" : fractions.error().text()));
  REQUIRE(fractions);
  return shares_of(*fractions, records);
}

std::string refused_file(const std::string& text, int64_t workers, bool allow_gaps = false) {
  const auto fractions = parse_sharding_file(text, {"data_sharding", workers, allow_gaps});
  REQUIRE_FALSE(fractions);
  CHECK(fractions.error().code == Code::kUsage);
  return fractions.error().message;
}

int64_t rounded(const char* decimal, int64_t n) {
  return Decimal::parse(decimal).value().times(n);
}

// MXNet-G's own files.
constexpr const char* kTwoWorkers = "0 0.3\n0.3 1\n";
constexpr const char* kTwelveWorkers =
    "0 0.05\n0.05 0.1\n0.1 0.15\n0.15 0.2\n0.2 0.25\n0.25 0.3\n0.3 0.4\n0.4 0.5\n0.5 0.6\n0.6 0.7\n0.7 0.85\n0.85 1\n";

}  // namespace

TEST_CASE("the documented files of MXNet-G are read without changes", "[data]") {
  CHECK(shares_in(kTwoWorkers, 2, 60000) == std::vector<Share>{{0, 18000}, {18000, 60000}});
  CHECK(shares_in(kTwoWorkers, 2, 5) == std::vector<Share>{{0, 2}, {2, 5}});  // 1.5 is rounded to 2
  const std::vector<Share> cifar = shares_in(kTwelveWorkers, 12, 50000);
  std::vector<int64_t> borders;
  for (const Share& share : cifar) borders.push_back(share.end);
  CHECK(borders ==
        std::vector<int64_t>{2500, 5000, 7500, 10000, 12500, 15000, 20000, 25000, 30000, 35000, 42500, 50000});
  int64_t next = 0;
  for (const Share& share : shares_in(kTwelveWorkers, 12, 1281167)) {
    CHECK(share.begin == next);
    next = share.end;
  }
  CHECK(next == 1281167);
}

TEST_CASE("a border is rounded once, from the decimal text", "[data]") {
  CHECK(rounded("0.145", 100) == 15);  // in binary 14.499999999999998
  CHECK(rounded("0.285", 100) == 29);
  CHECK(rounded("0.29", 50) == 15);
  CHECK(rounded("0.30000000000000004", 5) == 2);
  CHECK(rounded("0.49999999999999999999999999", 1) == 0);
  CHECK(rounded("0.5", 1) == 1);
  CHECK(rounded(".05", 50000) == 2500);
  CHECK(rounded("5e-2", 50000) == 2500);
  CHECK(rounded("0.5E-1", 50000) == 2500);
  CHECK(rounded("0.005e+2", 50000) == 25000);
  CHECK(rounded("1.", 50000) == 50000);
  CHECK(rounded("1", int64_t{1} << 50) == int64_t{1} << 50);
  CHECK(rounded("0", 50000) == 0);
  CHECK(rounded("000.1", 50) == 5);
  // Against whole numbers: p / 10^6 of n.
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; i++) {
    const auto millionths = std::uniform_int_distribution<int64_t>(0, 1000000)(random);
    const auto n = std::uniform_int_distribution<int64_t>(0, 2000000)(random);
    const std::string text = fmt::format("{}.{:06}", millionths / 1000000, millionths % 1000000);
    REQUIRE(rounded(text.c_str(), n) == (2 * millionths * n + 1000000) / 2000000);
  }
}

TEST_CASE("borders that are equal to six decimals are one border", "[data]") {
  CHECK(shares_in("0 0.333333\n0.333334 0.666667\n0.666667 0.999999\n", 3, 3000000) ==
        std::vector<Share>{{0, 999999}, {999999, 2000001}, {2000001, 3000000}});
  CHECK(shares_in("1e-7 0.5\n0.4999999 1.0000001\n\n", 2, 100000000) ==
        std::vector<Share>{{0, 50000000}, {50000000, 100000000}});
}

// MXNet-G's own generator wrote such files.
TEST_CASE("shares may be in any order, and each rank has that of its line", "[data]") {
  CHECK(shares_in("0.9 1.0\n0 0.5\n0.5 0.9\n", 3, 20) == std::vector<Share>{{18, 20}, {0, 10}, {10, 18}});
  CHECK(shares_in("0.5 1\n0.333333 0.5\n0 0.333334\n", 3, 3000000) ==
        std::vector<Share>{{1500000, 3000000}, {1000002, 1500000}, {0, 1000002}});
  CHECK(shares_in("0.5 1\n0.5 0.5\n0 0.5\n", 3, 10) == std::vector<Share>{{5, 10}, {5, 5}, {0, 5}});
  CHECK_THAT(refused_file("0.5 1\n0.1 0.5\n", 2),
             Contains("data_sharding:2: no share covers the records from 0 to 0.1"));
  CHECK_THAT(refused_file("0.5 0.9\n0 0.5\n", 2),
             Contains("data_sharding:1: no share covers the records from 0.9 to 1"));
}

TEST_CASE("comments and blank lines do not count as shares, and errors name the line of the file", "[data]") {
  CHECK(shares_in("# two workers\n\n0 0.3  # the slow one\n#0 1\n0.3 1\n", 2, 10) ==
        std::vector<Share>{{0, 3}, {3, 10}});
  CHECK_THAT(refused_file("# shares\n0 0.3\n0.4 1\n", 2), Contains("data_sharding:3: no share covers"));
}

TEST_CASE("borders that leave records out or give them twice are refused by line", "[data]") {
  CHECK_THAT(refused_file("0 0.3\n0.4 1\n", 2),
             Contains("data_sharding:2: no share covers the records from 0.3 to 0.4") && Contains("--allow-gaps"));
  CHECK_THAT(refused_file("0.1 1\n", 1), Contains("data_sharding:1: no share covers the records from 0 to 0.1"));
  CHECK_THAT(refused_file("0 .5\n\n.5 .99\n", 2),
             Contains("data_sharding:3: no share covers the records from 0.99 to 1"));
  CHECK_THAT(refused_file("0 0.5\n0.4 1\n", 2),
             Contains("data_sharding:2: the share begins at 0.4, but another share that begins earlier ends at 0.5"));
  CHECK_THAT(refused_file("0 0.5\n0.4 1\n", 2, true), Contains("another share that begins earlier"));
  CHECK_THAT(refused_file("0.5 1\n0 0.6\n", 2, true), Contains("data_sharding:1: the share begins at 0.5, but"));
  CHECK_THAT(refused_file("0 0.5\n0.5 0.2\n", 2, true), Contains("data_sharding:2: the share ends at 0.2, before"));
  CHECK(shares_in("0.1 0.3\n0.4 0.9\n", 2, 100, true) == std::vector<Share>{{10, 30}, {40, 90}});
  CHECK(shares_in("0 0.99\n", 1, 100, true) == std::vector<Share>{{0, 99}});
}

TEST_CASE("a sharding file has one line for each rank and two numbers in each line", "[data]") {
  CHECK_THAT(refused_file(kTwelveWorkers, 10),
             Contains("data_sharding: 12 lines for 10 workers; there must be one line per worker"));
  CHECK_THAT(refused_file("", 1), Contains("0 lines for 1 workers"));
  CHECK_THAT(refused_file("0 0.5 1\n", 1), Contains("data_sharding:1: the line must have 2 numbers"));
  CHECK_THAT(refused_file("0\n", 1), Contains("data_sharding:1: the line must have 2 numbers"));
  for (const char* text : {"x",
                           "0.5x",
                           "-0",
                           "+1",
                           "1.1",
                           "2",
                           "10",
                           ".",
                           "",
                           "1e",
                           "e1",
                           "1e99",
                           "1e-99999999999",
                           "1e-2147483648",
                           "1e2147483647",
                           "nan",
                           "inf",
                           "0x1",
                           "1..2",
                           "1 "}) {
    INFO(text);
    CHECK_FALSE(Decimal::parse(text));
  }
  CHECK_THAT(refused_file("0 one\n", 1), Contains("data_sharding:1: 'one' is not a number from 0 to 1"));
}

TEST_CASE("a sharding file that was cut or changed is refused or read, and its shares stay within the records",
          "[data]") {
  const std::string good = kTwelveWorkers;
  const auto check = [](const std::string& text) {
    const auto fractions = parse_sharding_file(text, {"data_sharding", 12, true});
    if (!fractions) return;
    for (const Share& share : shares_of(*fractions, 50000)) {
      REQUIRE(share.begin >= 0);
      REQUIRE(share.begin <= share.end);
      REQUIRE(share.end <= 50000);
    }
  };
  for (size_t size = 0; size < good.size(); size++) check(good.substr(0, size));
  for (size_t i = 0; i < good.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      check(bad);
    }
  }
}

TEST_CASE("a written file is read back with the same borders, to the record", "[data]") {
  CHECK(format_sharding_file(equal_shares(60000, 4), 60000) == "0 0.25\n0.25 0.5\n0.5 0.75\n0.75 1\n");
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; i++) {
    INFO("turn " << i);
    std::vector<double> speeds(1 + random() % 200);
    for (double& speed : speeds) speed = 1 + static_cast<double>(random() % 100000) / 100;
    const auto records = static_cast<int64_t>(1 + random() % 10'000'000);
    const std::vector<Share> shares = shares_by_speed(records, speeds);
    CHECK(shares_in(format_sharding_file(shares, records), std::ssize(speeds), records) == shares);
  }
}
