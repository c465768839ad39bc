#include "dataset/packing/reorder_window.h"

#include <future>
#include <thread>

#include "support/catch.h"
#include "support/must.h"
#include "support/patience.h"

using namespace dtrain;
using namespace dtrain::dataset;
using dtrain::test::must;

namespace {

constexpr std::chrono::milliseconds kAtOnce{0};
constexpr std::chrono::seconds kLong{20};

std::vector<uint8_t> result_of(size_t item, size_t bytes = 1) {
  return std::vector<uint8_t>(bytes, static_cast<uint8_t>(item));
}

}  // namespace

TEST_CASE("results come in order, whatever the order in which threads finish", "[data]") {
  ReorderWindow window(3, 6, 10, 1000);
  CHECK(window.take() == 3u);
  CHECK(window.take() == 4u);
  CHECK(window.take() == 5u);
  CHECK(!window.take());
  window.put(5, result_of(5));
  window.put(4, fail(Code::kData, "broken"));
  CHECK(!window.next(kAtOnce));
  window.put(3, result_of(3));
  CHECK(must(*window.next(kAtOnce)) == result_of(3));
  CHECK(!*window.next(kAtOnce));
  CHECK(must(*window.next(kAtOnce)) == result_of(5));
  CHECK(!window.next(kAtOnce));
}

TEST_CASE("a slow item does not stop the other thread until the window is full", "[data]") {
  ReorderWindow window(0, 100, 8, 1000);
  REQUIRE(window.take() == 0u);  // the slow one
  std::atomic<int> taken = 0;
  std::thread other([&] {
    while (const auto item = window.take()) {
      taken++;
      window.put(*item, result_of(*item));
    }
  });
  dtrain::test::await([&] { return taken >= 7; });
  CHECK(!window.next(std::chrono::milliseconds(5)));
  CHECK(taken == 7);
  window.put(0, result_of(0));
  for (size_t i = 0; i < 100; i++) CHECK(must(*window.next(kLong)) == result_of(i));
  other.join();
}

TEST_CASE("finished results take no more memory than allowed, but the next one always has room", "[data]") {
  ReorderWindow window(0, 10, 10, 100);
  REQUIRE(window.take() == 0u);
  REQUIRE(window.take() == 1u);
  window.put(1, result_of(1, 500));
  std::atomic<bool> got_third = false;
  std::thread other([&] {
    const auto item = window.take();
    got_third = true;
    window.put(*item, result_of(*item, 500));
  });
  CHECK(!window.next(std::chrono::milliseconds(5)));
  CHECK(!got_third);
  window.put(0, result_of(0, 500));
  CHECK(must(*window.next(kLong)).size() == 500);
  CHECK(must(*window.next(kLong)).size() == 500);
  CHECK(must(*window.next(kLong)).size() == 500);
  other.join();
}

// Ten results of 60 bytes pass through a window of 100; then a thread takes two items in a row.
TEST_CASE("results that were handed out leave room for others", "[data]") {
  ReorderWindow window(0, 12, 8, 100);
  for (size_t i = 0; i < 10; i++) {
    REQUIRE(window.take() == i);
    window.put(i, result_of(i, 60));
    REQUIRE(must(*window.next(kAtOnce)).size() == 60);
  }
  std::future<bool> both = std::async(std::launch::async, [&] { return window.take() && window.take(); });
  const bool in_time = both.wait_for(dtrain::test::kPatience) == std::future_status::ready;
  window.stop();  // lets the other thread end in any case
  CHECK(in_time);
  CHECK(both.get());
}

TEST_CASE("after stop() no thread waits or begins an item", "[data]") {
  ReorderWindow window(0, 10, 1, 100);
  REQUIRE(window.take() == 0u);
  auto waits = std::async(std::launch::async, [&] { return window.take(); });
  window.stop();
  CHECK(!waits.get());
  CHECK(!window.take());
}
