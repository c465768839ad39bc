#include <algorithm>

#include "sync/event_log.h"

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::sync;

namespace {

// An event log of two slices with two workers each; one slice starts again.
std::string example() {
  std::string text;
  const auto feed = [&](SliceName name, Machine& machine, const Event& event) {
    std::vector<Effect> effects;
    machine.on(event, effects);
    append_event(name, event, effects, text);
  };
  Machine first(bsp(2)), second(gsp({0, 1}, 3), 7);
  append_begin({0, 0}, bsp(2), 0, {}, text);
  append_begin({12, 1}, gsp({0, 1}, 3), 7, {}, text);
  feed({0, 0}, first, Push{0, 0});
  feed({12, 1}, second, Push{1, 7});
  feed({0, 0}, first, Pull{0, 1});
  feed({0, 0}, first, Push{1, 0});
  feed({12, 1}, second, Refresh{1, 8});
  append_begin({12, 1}, gsp({0, 1}, 3), 7, {}, text);
  second = Machine(gsp({0, 1}, 3), 7);
  feed({12, 1}, second, Leave{0});
  return text;
}

Result<Replay> replay(const std::string& event_log, std::string& out) {
  return sync::replay(event_log, [&](std::string_view piece) { out += piece; });
}

}  // namespace

TEST_CASE("an event log is replayed byte for byte", "[sync][trace]") {
  const std::string event_log = example();
  INFO(event_log);
  std::string out;
  const Replay run = replay(event_log, out).value();
  CHECK_FALSE(run.difference.has_value());
  CHECK(out == event_log);
  CHECK(run.slices == 3);
  CHECK(run.events == 6);
}

// Changes each byte, and cuts the event log at each place. The difference is reported at the changed line or a later
// one, unless the result is a valid event log of something else ("begin 9" in front of a leave).
TEST_CASE("an event log that differs from the machine's decisions is noticed", "[sync][trace]") {
  const std::string event_log = example();
  size_t noticed = 0;
  for (size_t at = 0; at < event_log.size(); at++) {
    std::string changed = event_log;
    changed[at] = changed[at] == '9' ? '8' : '9';
    for (const std::string& other : {changed, event_log.substr(0, at)}) {
      INFO(other);
      std::string out;
      const auto run = replay(other, out);
      const bool is_whole = run && !run->difference;
      CHECK(is_whole == (out == other));
      noticed += is_whole ? 0 : 1;
      const auto line = 1 + std::count(event_log.begin(), event_log.begin() + static_cast<int64_t>(at), '\n');
      if (run && run->difference) CHECK(static_cast<int64_t>(run->difference->line) >= line);
    }
  }
  CHECK(noticed > event_log.size() * 19 / 10);
}

TEST_CASE("the error of an unreadable event log names the line", "[sync][trace]") {
  const auto error_of = [](const std::string& event_log) {
    std::string out;
    const auto run = replay(event_log, out);
    return run ? "" : run.error().text();
  };
  CHECK(error_of("slice 0.0 bsp 2 begin 0\n0.1 push 0 step 0\n") ==
        "error [data] an event comes before the line that describes its slice 0.1\n  while line 2");
  for (const char* line :
       {"x", "0.0", "0.0 ", "0 push 0 step 0", "slice", "slice 0.0 bsp 2", "slice 0.0 xsp 2 begin 0",
        "slice 0.0 bsp 2 begin x", "slice 0.0 asp 2 begin 9 rounds", "slice 0.0 asp 2 begin 9 rounds 1",
        "slice 0.0 asp 2 begin 9 rounds 1 2 3", "slice 0.0 asp 2 begin 9 rounds 1 x", "slice 0 bsp 2 begin 0",
        "slice 0.0 begin 0", "0.0 sit 0"}) {
    CAPTURE(line);
    CHECK(error_of(std::string("slice 0.0 bsp 2 begin 0\n") + line + "\n").find("while line 2") != std::string::npos);
  }
}

TEST_CASE("an event log continues with rounds that differ from the version", "[sync][trace]") {
  const std::string event_log =
      "slice 0.0 ssp 2 lead 1 begin 90 rounds 40 41\n"
      "0.0 push 1 step 41\n  add 1 to group 1\n  apply group 1 staleness 1\n"
      "0.0 pull 1 step 42\n  park 1 waits for 0\n";
  std::string out;
  const auto run = replay(event_log, out);
  REQUIRE(run);
  CHECK_FALSE(run->difference);
  CHECK(out == event_log);
}

TEST_CASE("an event log that claims too many workers is refused", "[sync][trace]") {
  std::string event_log, out;
  for (int i = 0; i < 300; i++) append_begin({0, 0}, bsp(65536), 0, {}, event_log);
  CHECK_FALSE(replay(event_log, out).has_value());
}

TEST_CASE("a server's event log has the same content as its lines", "[sync][trace]") {
  const test::TempDir dir;
  const std::string path = dir.path("events");
  const auto writer = EventLog::create(path).value();
  std::string expected;
  append_begin({3, 0}, asp(2), 5, {}, expected);
  writer->begin({3, 0}, asp(2), 5, {});
  const std::vector<Effect> effects = {Add{1, 1}, Apply{1, 1}};
  for (Step step = 5; step < 5000; step++) {
    append_event({3, 0}, Push{1, step}, effects, expected);
    writer->event({3, 0}, Push{1, step}, effects);
  }
  REQUIRE(writer->finish().has_value());
  CHECK(read_file(path).value() == expected);
  CHECK_FALSE(EventLog::create(dir.path("none/events")).has_value());
}

TEST_CASE("an event log on a full disk is an error at its end", "[sync][trace]") {
  const auto writer = EventLog::create("/dev/full").value();
  writer->begin({0, 0}, asp(2), 0, {});
  CHECK(writer->finish().error().message == "/dev/full: No space left on device: the event log is incomplete");
}
