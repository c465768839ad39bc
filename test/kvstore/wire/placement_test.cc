#include "kvstore/wire/placement.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.h"
#include "kvstore/wire/payload.h"
#include "kvstore/worker/buckets.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;

namespace {

std::vector<uint32_t> servers_of(const std::vector<Slice>& slices) {
  std::vector<uint32_t> servers;
  for (const Slice& slice : slices) servers.push_back(slice.server);
  return servers;
}

std::vector<uint64_t> counts_of(const std::vector<Slice>& slices) {
  std::vector<uint64_t> counts;
  for (const Slice& slice : slices) counts.push_back(slice.count);
  return counts;
}

std::vector<Slice> hash(std::vector<uint64_t> sizes, uint32_t servers) {
  return place(sizes, servers, PlacementRule::kHash, 1000000);
}

}  // namespace

// Expected values computed by hand.
TEST_CASE("keys and slices are placed on the expected servers", "[kvstore]") {
  CHECK(servers_of(hash(std::vector<uint64_t>(8, 10), 5)) == std::vector<uint32_t>{0, 3, 1, 4, 2, 0, 3, 1});
  CHECK(servers_of(hash(std::vector<uint64_t>(10, 10), 7)) == std::vector<uint32_t>{0, 5, 3, 1, 6, 4, 2, 0, 5, 3});
  CHECK(counts_of(hash({1440000}, 7)) == std::vector<uint64_t>{205714, 205715, 205714, 205714, 205714, 205715, 205714});
  CHECK(servers_of(place(std::vector<uint64_t>{600000}, 3, PlacementRule::kHash, 600000)) ==
        std::vector<uint32_t>{0, 1, 2});
  // An array of exactly the bound is divided.
  CHECK(servers_of(hash({999999, 1000000}, 2)) == std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 1, 1});
}

// Shares of 366630, 366631, 366630 and 366630 elements, each cut at 262144.
TEST_CASE("a server's part of a key is divided into slices of one message", "[kvstore]") {
  const std::vector<Slice> slices = hash({1466521}, 4);
  CHECK(counts_of(slices) == std::vector<uint64_t>{262144, 104486, 262144, 104487, 262144, 104486, 262144, 104486});
  CHECK(servers_of(slices) == std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3, 3});
  for (uint32_t i = 0; i < slices.size(); i++) CHECK(slices[i].part == i);
  CHECK(hash({kSliceElementsMax}, 1).size() == 1);
  CHECK(counts_of(hash({kSliceElementsMax + 1}, 1)) == std::vector<uint64_t>{kSliceElementsMax, 1});
}

// The servers are chosen for what each holds of a key, before that is cut: a slice's size does not matter.
TEST_CASE("a whole key stays on one server however many slices it has", "[kvstore]") {
  for (const PlacementRule rule : {PlacementRule::kHash, PlacementRule::kBalanced}) {
    std::map<uint32_t, std::vector<uint32_t>> servers;
    const std::vector<uint64_t> sizes = {900000, 10, 700000, 700000};
    for (const Slice& slice : place(sizes, 2, rule, 1000000)) servers[slice.key].push_back(slice.server);
    for (const auto& [key, of_key] : servers) CHECK(std::ranges::count(of_key, of_key[0]) == std::ssize(of_key));
    CHECK(servers[0].size() == 4);
    if (rule == PlacementRule::kHash) continue;
    CHECK(servers[2][0] != servers[0][0]);
    CHECK(servers[3][0] != servers[0][0]);
  }
}

// The parts of a key follow each other without gaps, for any sizes, any number of servers and both rules.
TEST_CASE("the slices of a key cover the key", "[kvstore]") {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    RandomStream random(seed, Use::kTest);
    std::vector<uint64_t> sizes;
    for (int i = 0; i < 10; i++) sizes.push_back(static_cast<uint64_t>(random.below(seed % 4 < 2 ? 5000 : 2000000)));
    const auto servers = static_cast<uint32_t>(1 + random.below(12));
    const PlacementRule rule = seed % 2 == 0 ? PlacementRule::kHash : PlacementRule::kBalanced;
    std::vector<uint64_t> end(sizes.size(), 0);
    for (const Slice& slice : place(sizes, servers, rule, static_cast<uint64_t>(random.below(3000)))) {
      CHECK(slice.begin == end[slice.key]);
      CHECK(slice.count > 0);
      CHECK(slice.count <= kSliceElementsMax);
      CHECK(slice.server < servers);
      end[slice.key] += slice.count;
    }
    CHECK(end == sizes);
  }
}

TEST_CASE("balanced placement puts the largest slice on the least loaded server", "[kvstore]") {
  const std::vector<uint64_t> sizes = {3, 100, 50, 50, 7};
  CHECK(servers_of(place(sizes, 2, PlacementRule::kBalanced, 1000)) == std::vector<uint32_t>{1, 0, 1, 1, 0});
  // With kBalanced the servers' loads differ little; with kHash the largest array would decide.
  const std::vector<uint64_t> many(160, 640);
  std::map<uint32_t, uint64_t> load;
  for (const Slice& slice : place(many, 3, PlacementRule::kBalanced, 1000)) load[slice.server] += slice.count;
  CHECK(load[0] - load[2] <= 640);
}

TEST_CASE("a placement is parsed back from its text, and other texts are refused", "[kvstore]") {
  const std::vector<Slice> slices = hash({10, 2000001, 3}, 3);
  CHECK(parse_placement(to_text(slices), 3).value() == slices);
  CHECK(to_text(place(std::vector<uint64_t>{10, 300001}, 2, PlacementRule::kHash, 1000)) ==
        "0:0:0:10:0 1:0:0:150001:0 1:1:150001:150000:1");
  CHECK(parse_placement("", 3).value().empty());
  for (const char* text : {"x", "0:0:0:10", "0:0:0:10:0:0", "0:0:0:10:-1", "4294967296:0:0:10:0", "0:0:0:10:0  ",
                           "0:0:0:99999999999999999999:0", ":::::"}) {
    INFO(text);
    const auto parsed = parse_placement(text, 3);
    CHECK_FALSE(parsed.has_value());
    if (!parsed) CHECK(parsed.error().code == Code::kUsage);
  }
}

// The table comes with a message of the scheduler. Slices that overlap would be written by several threads at once.
TEST_CASE("a placement that no rule makes is refused, and the message says which slice is wrong", "[kvstore]") {
  const auto refused = [](const std::string& text) {
    INFO(text);
    const auto parsed = parse_placement(text, 2);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == Code::kUsage);
    return parsed.error().message;
  };
  CHECK(parse_placement("0:0:0:10:1 2:0:0:262144:0 2:1:262144:7:1", 2).has_value());
  CHECK(refused("0:0:0:10:2") == "placement: slice '0:0:0:10:2': there is no server 2 among 2 servers");
  CHECK(refused("0:0:0:0:0") == "placement: slice '0:0:0:0:0': it has no elements");
  CHECK(refused("0:0:0:262145:0") == "placement: slice '0:0:0:262145:0': it has more than 262144 elements");
  CHECK(refused("1:0:0:5:0 0:0:0:5:0") == "placement: slice '0:0:0:5:0': it comes after key 1");
  CHECK(refused("0:0:0:5:0 0:0:0:5:0") == "placement: slice '0:0:0:5:0': part 1 of the key is expected here");
  CHECK(refused("0:0:0:5:0 0:2:5:5:0") == "placement: slice '0:2:5:5:0': part 1 of the key is expected here");
  CHECK(refused("0:1:0:5:0") == "placement: slice '0:1:0:5:0': part 0 of the key is expected here");
  CHECK(refused("0:0:0:5:0 0:1:4:5:0") == "placement: slice '0:1:4:5:0': it should begin at element 5");
  CHECK(refused("0:0:0:5:0 0:1:6:5:0") == "placement: slice '0:1:6:5:0': it should begin at element 5");
  CHECK(refused("0:0:18446744073709551615:5:0") ==
        "placement: slice '0:0:18446744073709551615:5:0': it should begin at element 0");
  CHECK(parse_placement("", 0).has_value());
  CHECK_FALSE(parse_placement("0:0:0:5:0", 0).has_value());
}

TEST_CASE("buckets get smaller towards the first layers", "[kvstore]") {
  // LeNet: weight and bias of conv1, conv2, fc1 and fc2.
  const std::vector<uint64_t> lenet = {500, 20, 25000, 50, 400000, 500, 5000, 10};
  CHECK(plan_buckets(lenet) == std::vector<size_t>{0, 2, 4});
  CHECK(plan_buckets(std::vector<uint64_t>{}) == std::vector<size_t>{0});
  CHECK(plan_buckets(std::vector<uint64_t>{7}) == std::vector<size_t>{0});
  const std::vector<uint64_t> many(100, 200000);  // 0.8 MB each
  const std::vector<size_t> begins = plan_buckets(many);
  CHECK(begins.front() == 0);
  CHECK(begins[1] == 1);
  CHECK(begins.back() == 94);
  CHECK(std::is_sorted(begins.begin(), begins.end()));
  CHECK(begins.size() < 25);
}
