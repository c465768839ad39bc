#include "base/thread.h"

#include <atomic>
#include <new>

#include "base/waits.h"
#include "support/catch.h"

using namespace dtrain;

TEST_CASE("a pool runs each item once, loop after loop", "[base]") {
  ThreadPool pool(4);
  for (int64_t n : {0, 1, 2, 3, 100}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
    pool.parallel_for(n, [&](int64_t i) { runs[static_cast<size_t>(i)]++; });
    for (const auto& count : runs) CHECK(count == 1);
  }
}

TEST_CASE("an exception of an item leaves the loop, and the pool can be used again", "[base]") {
  ThreadPool pool(4);
  std::atomic<int> runs = 0;
  const auto work = [&](int64_t i) {
    runs++;
    if (i % 2 == 1) throw std::bad_alloc();
  };
  CHECK_THROWS_AS(pool.parallel_for(100, work), std::bad_alloc);
  CHECK(runs == 100);
  pool.parallel_for(10, [&](int64_t) { runs++; });
  CHECK(runs == 110);
}

TEST_CASE("denormals are zero after flush_denormals", "[base]") {
  float product = 0;
  std::thread([&] {
    flush_denormals();
    volatile float tiny = 1e-30F;
    product = tiny * 1e-10F;
  }).join();
  CHECK(product == 0.0F);
}

TEST_CASE("open waits are listed, the oldest first, until they end", "[base]") {
  Waits waits;
  const Waits::Wait first(waits, [] { return "key 12"; });
  {
    const Waits::Wait second(waits, [] { return "barrier start"; });
    REQUIRE(waits.open().size() == 2);
    CHECK(waits.open()[0].name == "key 12");
    CHECK(waits.open()[1].name == "barrier start");
  }
  CHECK(waits.open().size() == 1);
}
