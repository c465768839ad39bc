#include "comm/gloo.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "base/random.h"
#include "comm/links.h"
#include "group.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/patience.h"

using namespace dtrain;
using namespace dtrain::comm;
using namespace dtrain::comm::test;
using dtrain::test::must;

namespace {

// An exchange in which this process receives, as rank 1's bytes, a forgery made from its own for that rank.
PairExchange forger(const std::function<std::string(std::string)>& forge) {
  return [forge](std::vector<std::string> for_each) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{for_each.at(0), forge(for_each.at(1))};
  };
}

std::vector<std::unique_ptr<Links>> two_links(double wait_limit_s) {
  std::signal(SIGPIPE, SIG_IGN);
  Board board(2);
  std::vector<std::unique_ptr<Links>> links(2);
  on_all(2, [&](uint32_t rank) -> Result<> {
    links[rank] = must(Links::connect({.rank = rank, .size = 2, .wait_limit_s = wait_limit_s}, board.of_pairs(rank)));
    return {};
  });
  return links;
}

std::string as_of_rank_1(std::string bytes) {
  bytes[4] = 1;  // after the magic number
  return bytes;
}

}  // namespace

TEST_CASE("every operation between processes agrees with a plain loop", "[comm]") {
  for (const uint32_t size : {1U, 2U, 3U, 4U}) check_lengths(gloo_group(size, kLong));
}

TEST_CASE("processes are summed from left to right, with the same bits by every operation", "[comm]") {
  for (const uint32_t size : {2U, 3U, 4U}) {
    const Arrays arrays = random_numbers(size, 10007, size);
    check_operations(gloo_group(size, kLong), arrays, ordered_sum_of(arrays));
  }
}

// The sum has more segments than there is memory for at once, so memory is reused while the next segments arrive.
TEST_CASE("a long array is summed in segments that do not mix", "[comm]") {
  const Arrays arrays = random_numbers(2, (size_t{1} << 22) + (size_t{1} << 20) + 12345, 3);
  check_operations(gloo_group(2, kLong), arrays, ordered_sum_of(arrays));
}

TEST_CASE("many operations of processes in a row do not disturb each other", "[comm]") {
  constexpr uint32_t kSize = 3;
  const Group group = gloo_group(kSize, kLong);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    INFO("seed " << seed);
    std::vector<int> wrong(kSize, 0);
    const auto endings = on_all(kSize, [&](uint32_t rank) -> Result<> {
      RandomStream shared(seed, Use::kTest, 0);
      RandomStream own(seed, Use::kTest, 1, rank);
      for (int operation = 0; operation < 50; operation++) {
        for (int64_t yields = own.below(20); yields > 0; yields--) std::this_thread::yield();
        Arrays arrays = random_numbers(kSize, static_cast<size_t>(shared.below(2000)), shared.next());
        const std::vector<float> sum = ordered_sum_of(arrays);
        std::vector<float>& values = arrays[rank];
        if (shared.below(2) == 0) {
          DT_TRY_VOID(group[rank]->all_reduce(values));
        } else {
          DT_TRY_VOID(group[rank]->reduce_scatter(values));
          DT_TRY_VOID(group[rank]->all_gather(values));
        }
        if (!same_bits(values, sum)) wrong[rank]++;
      }
      return {};
    });
    for (const Ending& ending : endings) REQUIRE(ending.result.has_value());
    CHECK(wrong == std::vector<int>(kSize, 0));
  }
}

TEST_CASE("a process that is silent is named within the limit", "[comm]") {
  std::vector<std::vector<float>> values(3, std::vector<float>(1000));
  const Group two = gloo_group(2, 0.3);
  const Result<> waited = two[0]->all_reduce(values[0]);
  REQUIRE(!waited);
  CHECK(waited.error().code == Code::kPeerLost);
  CHECK(waited.error().message == "rank 1 has not reached all_reduce within 0.3 s");
  CHECK(two[0]->broadcast(values[0], 0).error().message == waited.error().message);

  const Group three = gloo_group(3, 0.3);
  const Result<> alone = three[1]->reduce(values[1], 0);
  REQUIRE(!alone);
  CHECK(alone.error().message == "ranks 0, 2 have not reached reduce within 0.3 s");
}

// The first rank that reaches its limit names the silent one and closes its connections. The other may see this before
// its own limit. On a busy host the other may itself be late for such a short limit, but not five times in a row.
TEST_CASE("all processes that wait for a silent one are told, and the first error names it", "[comm]") {
  bool named = false;
  for (int attempt = 0; attempt < 5 && !named; attempt++) {
    const Group group = gloo_group(3, 0.3);
    std::vector<std::vector<float>> values(3, std::vector<float>(1000));
    for (const Ending& ending :
         on_ranks({0, 1}, [&](uint32_t rank) { return group[rank]->all_reduce(values[rank]); })) {
      REQUIRE(!ending.result);
      CHECK(ending.result.error().code == Code::kPeerLost);
      named = named || ending.result.error().message == "rank 2 has not reached all_reduce within 0.3 s";
    }
  }
  CHECK(named);
}

TEST_CASE("a process that has ended is named at once", "[comm]") {
  for (const bool before : {true, false}) {
    INFO((before ? "gone before" : "gone while others wait"));
    Group group = gloo_group(3, kLong);
    std::vector<std::vector<float>> values(3, std::vector<float>(1000));
    std::thread destroyer([end = std::move(group[2])]() mutable { end.reset(); });
    if (before) destroyer.join();
    bool named = false;
    for (const Ending& ending :
         on_ranks({0, 1}, [&](uint32_t rank) { return group[rank]->all_reduce(values[rank]); })) {
      REQUIRE(!ending.result);
      CHECK(ending.result.error().code == Code::kPeerLost);
      named = named || ending.result.error().message.starts_with("rank 2 has closed the connection during all_reduce");
    }
    CHECK(named);
    if (!before) destroyer.join();
  }
}

// gloo by itself reports nothing about a message that was being sent when its sender ended. Whether it still was
// depends on how busy the host is, so once in ten attempts is enough.
TEST_CASE("a process that ends in the middle of a message is noticed at once", "[comm]") {
  const std::vector<std::byte> sent(size_t{256} << 20, std::byte{1});
  bool was_in_the_middle = false;
  for (int attempt = 0; attempt < 10 && !was_in_the_middle; attempt++) {
    constexpr Links::Channel kChannel = {"a long message", Links::kFirstChannel};
    auto links = two_links(kLong);
    std::vector<std::byte> received(sent.size());
    auto incoming = links[0]->round(kChannel);
    must(incoming->receive(1, received));
    {
      auto outgoing = links[1]->round(kChannel);
      must(outgoing->send(0, sent));
      const std::atomic_ref<std::byte> first(received.front());
      dtrain::test::await([&] { return first.load() == std::byte{1}; });
    }
    links[1].reset();
    const Result<> result = incoming->finish();
    was_in_the_middle = received.back() == std::byte{0};
    CHECK(result.has_value() == !was_in_the_middle);
    if (result) continue;
    CHECK(result.error().code == Code::kPeerLost);
    CHECK_THAT(result.error().message, Catch::StartsWith("rank 1 has closed the connection during a long message"));
  }
  CHECK(was_in_the_middle);
}

// The loss is known before anybody asks for the message. The message must count nevertheless, and only once.
TEST_CASE("data that a process sent before it ended is received", "[comm]") {
  constexpr Links::Channel kChannel = {"a last message", Links::kFirstChannel};
  for (int repeat = 0; repeat < 20; repeat++) {
    auto links = two_links(2);
    const std::vector<std::byte> sent(1000, std::byte{1});
    std::vector<std::byte> received(sent.size());
    auto incoming = links[0]->round(kChannel);
    must(incoming->receive(1, received));
    {
      auto outgoing = links[1]->round(kChannel);
      must(outgoing->send(0, sent));
      must(outgoing->finish());
    }
    links[1].reset();
    const Result<> result = incoming->finish();
    if (!result) FAIL(result.error().text());
    CHECK(received == sent);
  }
}

// After the very last operation, a rank that has finished ends and takes nothing away from the others.
TEST_CASE("an endpoint may be destroyed as soon as its last operation has finished, also between processes", "[comm]") {
  for (int repeat = 0; repeat < 10; repeat++) {
    Group group = gloo_group(3, kLong);
    const auto endings = on_all(3, [&](uint32_t rank) {
      std::vector<float> values(500000, 1.0F);
      const Result<> result = group[rank]->broadcast(values, 0);
      group[rank].reset();
      return result;
    });
    for (const Ending& ending : endings) {
      if (!ending.result) FAIL(ending.result.error().text());
    }
  }
}

TEST_CASE("cancel releases this process with its error, and the others with a lost peer", "[comm]") {
  const Group group = gloo_group(3, kLong);
  std::vector<std::vector<float>> values(3, std::vector<float>(1000));
  std::thread canceller([&] {
    group[0]->cancel({Code::kPreempted, "asked to stop", {}});
    group[0]->cancel({Code::kInternal, "too late", {}});
  });
  const auto endings = on_ranks({0, 1}, [&](uint32_t rank) { return group[rank]->all_reduce(values[rank]); });
  canceller.join();
  REQUIRE(!endings[0].result);
  CHECK(endings[0].result.error().message == "asked to stop");
  REQUIRE(!endings[1].result);
  CHECK(endings[1].result.error().code == Code::kPeerLost);
  CHECK_THAT(endings[1].result.error().message, Catch::StartsWith("rank 0 has closed the connection"));
  CHECK(group[0]->all_gather(values[0]).error().message == "asked to stop");
}

// Each array is freed when its operation returns, whatever gloo was doing at that moment.
TEST_CASE("a canceled operation between processes no longer uses any array when it returns", "[comm]") {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    INFO("seed " << seed);
    const Group group = gloo_group(2, kLong);
    std::atomic<int64_t> done = 0;
    std::thread canceller([&] {
      RandomStream random(seed, Use::kTest);
      const int64_t operations = random.below(10);
      dtrain::test::await([&] { return done >= operations; });
      for (int64_t yields = random.below(20); yields > 0; yields--) std::this_thread::yield();
      group[0]->cancel({Code::kPreempted, "asked to stop", {}});
    });
    const auto endings = on_all(2, [&](uint32_t rank) {
      Result<> result;
      while (result) {
        const auto values = std::make_unique<std::vector<float>>(700000, 1.0F);
        result = group[rank]->all_reduce(*values);
        done++;
      }
      return result;
    });
    canceller.join();
    CHECK(endings[0].result.error().code == Code::kPreempted);
    CHECK(endings[1].result.error().code == Code::kPeerLost);
  }
}

// gloo itself ends the process when a message is longer than the buffer that waits for it.
TEST_CASE("processes that call different operations get errors instead of each other's data", "[comm]") {
  const auto check = [](const std::function<Result<>(Collective&, std::span<float>)>& operation) {
    const Group group = gloo_group(2, 0.2);
    std::vector<std::vector<float>> values(2, std::vector<float>(1000));
    for (const Ending& ending : on_all(2, [&](uint32_t rank) { return operation(*group[rank], values[rank]); })) {
      REQUIRE(!ending.result);
      CHECK(ending.result.error().code == Code::kPeerLost);
    }
  };
  check([](Collective& end, std::span<float> values) { return end.all_reduce(values.first(999 + end.rank())); });
  check([](Collective& end, std::span<float> values) {
    return end.rank() == 0 ? end.all_gather(values) : end.reduce_scatter(values);
  });
  check([](Collective& end, std::span<float> values) { return end.broadcast(values, end.rank()); });
}

TEST_CASE("a group of processes needs an address of this host", "[comm]") {
  const PairExchange unused = [](const std::vector<std::string>&) -> Result<std::vector<std::string>> {
    return fail(Code::kInternal, "nobody asks");
  };
  for (const char* ip : {"", "no-such-host", "localhost", "192.0.2.1", "127.0.0.1:80"}) {
    INFO("'" << ip << "'");
    const auto group = make_gloo_group({.rank = 0, .size = 2, .listen_ip = ip}, unused);
    REQUIRE(!group);
    CHECK(group.error().code == Code::kStartup);
  }
  CHECK(make_gloo_group({.rank = 0, .size = 2}, unused).error().message == "nobody asks");
}

TEST_CASE("addresses from the exchange are accepted only if they belong to the ranks", "[comm]") {
  std::vector<uint32_t> unreached;
  const GlooOptions options = {
      .rank = 0, .size = 2, .connect_limit_s = 0.2, .on_unreached = [&](uint32_t rank) { unreached.push_back(rank); }};
  const auto check_refused = [&](const std::function<std::string(std::string)>& forge) {
    const auto group = make_gloo_group(options, forger(forge));
    REQUIRE(!group);
    CHECK(group.error().code == Code::kStartup);
  };
  size_t bytes = 0;
  // Nobody connects: the whole invitation is accepted, and the wait for its rank is limited.
  const auto absent = make_gloo_group(options, forger([&](std::string mine) {
                                        bytes = mine.size();
                                        return as_of_rank_1(std::move(mine));
                                      }));
  REQUIRE(!absent);
  CHECK(absent.error().code == Code::kPeerLost);
  CHECK_THAT(absent.error().message, Catch::StartsWith("cannot connect to rank 1 within 0.2 s"));
  CHECK(unreached == std::vector<uint32_t>{1});
  for (size_t length = 0; length < bytes; length++) {
    check_refused([&](std::string mine) { return as_of_rank_1(std::move(mine)).substr(0, length); });
  }
  check_refused([](std::string mine) { return as_of_rank_1(std::move(mine)) + "x"; });
  for (size_t bit = 0; bit < size_t{12 * 8}; bit++) {
    check_refused([&](std::string mine) {
      mine = as_of_rank_1(std::move(mine));
      mine[bit / 8] = static_cast<char>(mine[bit / 8] ^ (1 << bit % 8));
      return mine;
    });
  }
  const auto too_few =
      make_gloo_group(options, [](const std::vector<std::string>& for_each) -> Result<std::vector<std::string>> {
        return std::vector<std::string>{for_each.at(0)};
      });
  CHECK(too_few.error().code == Code::kStartup);
}

TEST_CASE("what a rank passes to each other one does not grow with the size of the group", "[comm]") {
  std::vector<size_t> bytes;
  for (const uint32_t size : {16, 64, 256}) {
    const PairExchange exchange = [&](const std::vector<std::string>& for_each) -> Result<std::vector<std::string>> {
      REQUIRE(for_each.size() == size);
      for (const std::string& one : for_each) bytes.push_back(one.size());
      return fail(Code::kInternal, "enough");
    };
    CHECK_THAT(make_gloo_group({.rank = size / 2, .size = size}, exchange).error().message, Catch::Contains("enough"));
  }
  CHECK(bytes.size() == 16 + 64 + 256);
  CHECK(*std::max_element(bytes.begin(), bytes.end()) <= 64);
}

// Rank 0 is told another secret than the one that rank 1 has, as if another process had connected in its place.
TEST_CASE("only a process that took part in the exchange can connect", "[comm]") {
  std::signal(SIGPIPE, SIG_IGN);
  Board board(2);
  std::vector<Result<std::unique_ptr<Collective>>> groups(2);
  on_all(2, [&](uint32_t rank) -> Result<> {
    const PairExchange exchange = [&](std::vector<std::string> for_each) -> Result<std::vector<std::string>> {
      DT_TRY(std::vector<std::string> all, board.exchange(rank, std::move(for_each)));
      if (rank == 0) all[1][12] = static_cast<char>(all[1][12] ^ 1);
      return all;
    };
    groups[rank] = make_gloo_group({.rank = rank, .size = 2}, exchange);
    return {};
  });
  REQUIRE(!groups[0]);
  CHECK(groups[0].error().code == Code::kStartup);
  CHECK_THAT(groups[0].error().message,
             Catch::StartsWith("a process that does not belong to the group has connected as rank 1"));
}
