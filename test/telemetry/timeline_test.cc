#include "telemetry/timeline.h"

#include <thread>
#include <vector>

#include "base/thread.h"
#include "support/catch.h"
#include "support/patience.h"
#include "telemetry/clock_offset.h"

using namespace dtrain;
using namespace dtrain::telemetry;

TEST_CASE("a timeline that is off records nothing, and one that is on has each thread's spans", "[timeline]") {
  Timeline timeline;
  { const Span span(&timeline, "before", "test"); }
  CHECK(timeline.rows().empty());
  { const Span span(nullptr, "without a timeline", "test"); }
  timeline.begin();
  {
    Span outer(&timeline, "outer", "test");
    outer.with("step", 7).with("bytes", 1000U);
    const Span inner(&timeline, "inner", "test");
  }
  std::thread([&] {
    name_thread("another");
    const Span span(&timeline, "there", "test");
  }).join();
  timeline.end();
  { const Span span(&timeline, "after", "test"); }
  const std::vector<TimelineRow> rows = timeline.rows();
  REQUIRE(rows.size() == 2);
  const size_t own = rows[0].thread == "another" ? 1 : 0;
  CHECK(rows[1 - own].thread == "another");
  REQUIRE(rows[own].events.size() == 2);
  const TimelineEvent& inner = rows[own].events[0];
  const TimelineEvent& outer = rows[own].events[1];
  CHECK(std::string(inner.name) == "inner");
  CHECK(std::string(outer.name) == "outer");
  CHECK(std::string(outer.arguments[1].name) == "bytes");
  CHECK(outer.arguments[1].value == 1000);
  CHECK(outer.begin_ns <= inner.begin_ns);
  CHECK(inner.end_ns <= outer.end_ns);
}

TEST_CASE("a track is a row of its own, whichever thread records it", "[timeline]") {
  Timeline timeline;
  const char* const track = timeline.keep("GPU 0");
  timeline.begin();
  TimelineEvent event;
  event.name = "conv1: forward";
  event.begin_ns = event.end_ns = Timeline::now_ns();
  timeline.add_to(track, event);
  std::thread([&] { timeline.add_to(track, event); }).join();
  { const Span span(&timeline, "own", "test"); }
  const std::vector<TimelineRow> rows = timeline.rows();
  REQUIRE(rows.size() == 2);
  const TimelineRow& of_track = rows[rows[0].thread == "GPU 0" ? 0 : 1];
  CHECK(of_track.thread == "GPU 0");
  CHECK(of_track.events.size() == 2);
}

TEST_CASE("a recording begins empty, without the spans that were open", "[timeline]") {
  Timeline timeline;
  timeline.begin();
  { const Span span(&timeline, "old", "test"); }
  {
    const Span open(&timeline, "open", "test");
    timeline.begin();
  }
  CHECK(timeline.rows().empty());
}

// The next recording has the whole limit again.
TEST_CASE("events beyond the limit are counted and left out", "[timeline]") {
  Timeline timeline;
  timeline.begin();
  TimelineEvent event;
  event.begin_ns = Timeline::now_ns();
  for (size_t i = 0; i < Timeline::kEventsMax + 3; i++) timeline.add(event);
  CHECK(timeline.dropped() == 3);
  CHECK(timeline.rows().front().events.size() == Timeline::kEventsMax);
  timeline.begin();
  event.begin_ns = Timeline::now_ns();
  timeline.add(event);
  CHECK(timeline.dropped() == 0);
  CHECK(timeline.rows().front().events.size() == 1);
}

// Under ThreadSanitizer: recordings begin and end while many threads record.
TEST_CASE("threads record while recordings begin and end", "[timeline]") {
  Timeline timeline;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      while (!stop) Span(&timeline, "work", "test").arrow(ArrowPoint::kBegin, 1);
    });
  }
  for (int i = 0; i < 50; i++) {
    timeline.begin();
    dtrain::test::await([&] { return !timeline.rows().empty(); });
    timeline.end();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(timeline.rows().size() <= 4);
}

TEST_CASE("arrows of requests differ by rank and number", "[timeline]") {
  CHECK(arrow_of_request(0, 1) != arrow_of_request(1, 1));
  CHECK(arrow_of_request(0, 1) != arrow_of_request(0, 2));
  CHECK(arrow_of_request(0, 1) != 0);
}

TEST_CASE("the clock's offset is that of the shortest round trip of the last minutes", "[timeline]") {
  ClockOffset clock;
  CHECK_FALSE(clock.estimate().has_value());
  clock.add(1'000, 6'000, 1'400);  // half way: 1,200
  CHECK(clock.estimate()->offset_us == 4'800);
  CHECK(clock.estimate()->error_us == 200);
  clock.add(2'000, 7'010, 2'010);
  CHECK(clock.estimate()->offset_us == 5'005);
  CHECK(clock.estimate()->error_us == 5);
  clock.add(3'000, 9'000, 5'000);  // slow: believed no more than before
  CHECK(clock.estimate()->offset_us == 5'005);
  clock.add(4'000, 1, 3'000);  // received before it was sent
  CHECK(clock.estimate()->offset_us == 5'005);
  const int64_t later = 2'010 + ClockOffset::kMemoryUs + 1;
  clock.add(later - 100, later + 7'000, later);
  CHECK(clock.estimate()->offset_us == 7'050);
}
