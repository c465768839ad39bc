#include "telemetry/trace_file.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::telemetry;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

TraceOrigin origin_of(const std::string& role, uint32_t rank, uint64_t number = 1) {
  return {.role = role,
          .rank = rank,
          .request = {.number = number, .first_steps = {5}, .steps = 3},
          .clock = ClockOffset::Estimate{.offset_us = 1'000'000, .error_us = 20}};
}

TimelineEvent event_of(const char* name, int64_t begin_ns, int64_t end_ns) {
  TimelineEvent event;
  event.name = name;
  event.category = "test";
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  return event;
}

void write(const TempDir& dir, const TraceOrigin& origin, const std::vector<TimelineRow>& rows) {
  must(write_trace(dir.path(trace_file_name(origin.role, origin.rank)), origin, rows, 0));
}

}  // namespace

TEST_CASE("a trace has its events on the scheduler's clock, the outer span before the inner one", "[trace-file]") {
  const TempDir dir;
  TimelineEvent arrow = event_of("request", 2'500, 0);
  arrow.kind = TimelineEvent::Kind::kArrow;
  arrow.point = ArrowPoint::kEnd;
  arrow.arrow = 0x12;
  TimelineEvent outer = event_of("outer \"\n", 2'000, 5'000);
  outer.arguments[0] = {"step", -3};
  write(dir, origin_of("worker", 3), {{"decode", {event_of("inner", 2'000, 3'000), arrow, outer}}});
  const nlohmann::json trace = parse_json(must(read_file(dir.path("trace-worker-3.json"))));
  REQUIRE(trace.is_object());
  CHECK(trace["otherData"]["clock_error_us"] == 20);
  CHECK(trace["otherData"]["first_step"] == 5);
  const nlohmann::json& events = trace["traceEvents"];
  REQUIRE(events.size() == 6);
  CHECK(events[0]["args"]["name"] == "worker 3");
  CHECK(events[2]["args"]["name"] == "decode");
  CHECK(events[3]["name"] == "outer \"\n");
  CHECK(events[3]["ts"] == 1'000'002.0);
  CHECK(events[3]["dur"] == 3.0);
  CHECK(events[3]["args"]["step"] == -3);
  CHECK(events[4]["name"] == "inner");
  CHECK(events[5]["ph"] == "f");
  CHECK(events[5]["id"] == "0x12");
  CHECK(events[5]["bp"] == "e");
}

TEST_CASE("traces of the newest number are put together, and whole files only", "[trace-file]") {
  const TempDir dir, other;
  CHECK(merge_traces({dir.path()}).error().code == Code::kNotFound);
  CHECK(merge_traces({dir.path("absent")}).error().code == Code::kNotFound);
  write(dir, origin_of("scheduler", 0, 2), {});
  write(dir, origin_of("worker", 0, 2), {{"main", {event_of("step", 0, 10)}}});
  write(other, origin_of("worker", 1, 2), {{"main", {event_of("step", 5, 10), event_of("step", 15, 20)}}});
  write(dir, origin_of("worker", 2, 1), {{"main", {event_of("old", 0, 10)}}});
  must(write_file_atomic(dir.path("trace-worker-4.json"), "{}"));
  const MergedTrace merged = must(merge_traces({dir.path(), other.path()}));
  CHECK(merged.files == 3);
  CHECK(merged.number == 2);
  CHECK(merged.left_out.size() == 2);
  const nlohmann::json whole = parse_json(must(read_file(merged.path)));
  REQUIRE(whole.is_object());
  CHECK(whole["traceEvents"].size() == merged.events);
  CHECK(whole["otherData"]["processes"].size() == 3);
  CHECK(merged.events == 3 * 2 + 2 + 3);  // names of processes, names of threads, spans
  remove_traces(dir.path());
  CHECK(std::filesystem::is_empty(dir.path()));
}

// A file of which the end is missing, at whatever place, is left out; the rest is not.
TEST_CASE("a trace that is cut short anywhere is left out", "[trace-file]") {
  const TempDir dir;
  write(dir, origin_of("worker", 0), {{"main", {event_of("step", 0, 10)}}});
  const std::string whole = must(read_file(dir.path("trace-worker-0.json")));
  write(dir, origin_of("worker", 1), {});
  for (size_t length = 0; length + 1 < whole.size(); length++) {
    INFO(length << " of " << whole.size() << " bytes");
    must(write_file_atomic(dir.path("trace-worker-0.json"), whole.substr(0, length)));
    const MergedTrace merged = must(merge_traces({dir.path()}));
    CHECK(merged.files == 1);
    CHECK(merged.left_out.size() == 1);
    CHECK(parse_json(must(read_file(merged.path))).is_object());
  }
}

TEST_CASE("a trace with a line that dtrain did not write is not merged", "[trace-file]") {
  const TempDir dir;
  const std::string path = dir.path("trace-worker-0.json");
  write(dir, origin_of("worker", 0), {});
  const std::string whole = must(read_file(path));
  const size_t second = whole.find('\n') + 1;
  for (const std::string& line : {std::string("no event,\n"), std::string(size_t{3} << 20, '[') + "\n"}) {
    must(write_file_atomic(path, whole.substr(0, second) + line + whole.substr(second)));
    const auto refused = merge_traces({dir.path()});
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kData);
    CHECK(refused.error().message.starts_with(path + ": line 2 is not an event: " + line.substr(0, 8)));
    CHECK(refused.error().message.size() < path.size() + 200);
  }
  must(write_file_atomic(path, std::string(size_t{3} << 20, '{') + "\n]}\n"));
  write(dir, origin_of("worker", 1), {});
  CHECK(must(merge_traces({dir.path()})).left_out == std::vector{path + ": the file is not a trace of dtrain"});
}
