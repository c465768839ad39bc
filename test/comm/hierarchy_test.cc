#include "comm/hierarchy.h"

#include <thread>

#include "comm/shared_memory.h"
#include "group.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::comm;
using namespace dtrain::comm::test;

namespace {

// All ends, by rank. The group of processes may be any Collective; one without the network tests only our own code.
Group hierarchy(Group processes, uint32_t devices, double wait_limit_s = 300) {
  Group all;
  for (auto& process : processes) {
    for (auto& end : make_hierarchy({.devices = devices, .wait_limit_s = wait_limit_s}, std::move(process))) {
      all.push_back(std::move(end));
    }
  }
  return all;
}

// Sums each process's devices first, then the processes.
std::vector<float> nested_sum_of(const Arrays& arrays, size_t devices) {
  Arrays sums;
  for (size_t first = 0; first < arrays.size(); first += devices) {
    const auto begin = arrays.begin() + static_cast<ptrdiff_t>(first);
    sums.push_back(ordered_sum_of(Arrays(begin, begin + static_cast<ptrdiff_t>(devices))));
  }
  return ordered_sum_of(sums);
}

}  // namespace

TEST_CASE("every operation between processes of several devices agrees with a plain loop", "[comm]") {
  for (const auto& [processes, devices] : {std::pair(1U, 2U), {2U, 1U}, {2U, 2U}, {3U, 2U}, {2U, 3U}}) {
    INFO(processes << " processes of " << devices << " devices");
    check_lengths(hierarchy(make_shared_memory_group(processes, {}), devices));
  }
}

TEST_CASE("devices of several processes are summed process by process, by every operation", "[comm]") {
  const Arrays arrays = random_numbers(6, 10007, 1);
  const std::vector<float> sum = nested_sum_of(arrays, 2);
  CHECK(!same_bits(sum, ordered_sum_of(arrays)));  // otherwise the numbers would show nothing
  check_operations(hierarchy(make_shared_memory_group(3, {}), 2), arrays, sum);
}

// The devices of a process share one scratch array: the next operation must not overwrite what another device has not
// read yet.
TEST_CASE("many operations of several devices in a row do not disturb each other", "[comm]") {
  const Group group = hierarchy(make_shared_memory_group(2, {}), 3);
  const auto sum_all = [](Collective& rank, std::vector<float>& values) -> Result<> {
    DT_TRY_VOID(rank.reduce_scatter(values));
    return rank.all_gather(values);
  };
  const auto sum_of = [](const Arrays& arrays) { return nested_sum_of(arrays, 3); };
  for (uint64_t seed = 1; seed <= 5; seed++) {
    check_many_operations(group, seed,
                          {.count = 100, .pause_max = 5, .elements_max = 3000, .sum_all = sum_all, .sum_of = sum_of});
  }
}

TEST_CASE("processes of several devices connect over the network", "[comm]") {
  for (const auto& [processes, devices] : {std::pair(2U, 2U), {3U, 2U}}) {
    INFO(processes << " processes of " << devices << " devices");
    const Group group = hierarchy(gloo_group(processes, 60), devices);
    check_lengths(group);
    const Arrays arrays = random_numbers(group.size(), 10007, 2);
    check_operations(group, arrays, nested_sum_of(arrays, devices));
  }
}

// Only device 0 communicates with other processes; all devices get the error nevertheless.
TEST_CASE("all devices are told that another process is lost", "[comm]") {
  Group group = hierarchy(gloo_group(2, 60), 2);
  std::vector<float> values(100);
  group[2].reset();
  group[3].reset();
  for (const Ending& ending : on_ranks({0, 1}, [&](uint32_t rank) { return group[rank]->all_reduce(values); })) {
    REQUIRE(!ending.result);
    CHECK(ending.result.error().code == Code::kPeerLost);
    CHECK_THAT(ending.result.error().message, Catch::StartsWith("rank 1 has closed the connection during all_reduce"));
  }
}

TEST_CASE("a device that does not take part is named, and the other processes are told", "[comm]") {
  Group group = hierarchy(gloo_group(2, 60), 2, 0.1);
  std::vector<float> values(100);
  for (const Ending& ending : on_ranks({0, 2, 3}, [&](uint32_t rank) { return group[rank]->all_gather(values); })) {
    REQUIRE(!ending.result);
    CHECK(ending.result.error().code == Code::kPeerLost);
  }
  CHECK(group[0]->all_reduce(values).error().message == "device 1 has not reached broadcast within 0.1 s");
}

TEST_CASE("cancel releases the devices of a process and the other processes", "[comm]") {
  for (uint32_t canceller = 0; canceller < 2; canceller++) {
    const Group group = hierarchy(gloo_group(2, 60), 2);
    std::vector<float> values(100);
    std::thread cancels([&] { group[canceller]->cancel({Code::kPreempted, "asked to stop", {}}); });
    const auto endings = on_ranks({0, 1}, [&](uint32_t rank) { return group[rank]->all_reduce(values); });
    cancels.join();
    for (const Ending& ending : endings) {
      REQUIRE(!ending.result);
      CHECK(ending.result.error().code == Code::kPreempted);
    }
    for (const Ending& ending : on_ranks({2, 3}, [&](uint32_t rank) { return group[rank]->all_reduce(values); })) {
      REQUIRE(!ending.result);
      CHECK(ending.result.error().code == Code::kPeerLost);
    }
  }
}
