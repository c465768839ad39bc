#include "telemetry/tracer.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "telemetry/trace_file.h"

using namespace dtrain;
using namespace dtrain::telemetry;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

// Steps as a worker makes them. A forward pass takes the weights of the step before.
void make_steps(Tracer& tracer, uint64_t first, uint64_t end) {
  for (uint64_t step = first; step < end; step++) {
    tracer.begin_step(step);
    Span span(&tracer.timeline(), "step", "step");
    span.with("step", step);
    { const Span forward(&tracer.timeline(), "forward", "compute"); }
    tracer.forward_done(step);
  }
}

std::vector<int64_t> traced_steps(const std::string& path) {
  const nlohmann::json trace = parse_json(must(read_file(path)));
  std::vector<int64_t> steps;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] == "step") steps.push_back(event["args"]["step"]);
  }
  return steps;
}

}  // namespace

TEST_CASE("--trace records the steps after the first five, whichever number they have", "[tracer]") {
  const TempDir dir;
  Tracer tracer(Log::silent());
  tracer.request_at_start(2);
  tracer.set_place("worker", 0, dir.path(), Log::silent());
  make_steps(tracer, 100, 106);
  CHECK(tracer.timeline().is_on());
  CHECK(tracer.written() == 0);
  make_steps(tracer, 106, 120);
  CHECK(tracer.written() == 1);
  CHECK_FALSE(tracer.is_wanted());
  CHECK(traced_steps(dir.path("trace-worker-0.json")) == std::vector<int64_t>{105, 106});
}

// As in a job of one worker, whose next step has the number of the one that was left out.
TEST_CASE("a step whose update was left out counts as one of the trace", "[tracer]") {
  const TempDir dir;
  Tracer tracer(Log::silent());
  tracer.set_place("worker", 0, dir.path(), Log::silent());
  REQUIRE(tracer.request_next(3));
  for (const uint64_t step : {7, 7, 7, 8, 9}) make_steps(tracer, step, step + 1);
  CHECK(tracer.written() == 1);
  CHECK(traced_steps(dir.path("trace-worker-0.json")) == std::vector<int64_t>{7, 7, 7});
}

TEST_CASE("a worker that hears of a trace too late writes none, and says that it is done with it", "[tracer]") {
  const TempDir dir;
  Tracer tracer(Log::silent());
  tracer.set_place("worker", 0, dir.path(), Log::silent());
  make_steps(tracer, 0, 10);
  tracer.request({.number = 1, .first_steps = {3}, .steps = 4});
  make_steps(tracer, 10, 11);
  CHECK(tracer.written() == 1);
  CHECK(std::filesystem::is_empty(dir.path()));
  tracer.request({.number = 2, .first_steps = {9}, .steps = 4});  // it can still record two of them
  make_steps(tracer, 11, 20);
  CHECK(tracer.written() == 2);
  CHECK(traced_steps(dir.path("trace-worker-0.json")) == std::vector<int64_t>{11, 12});
  tracer.request({.number = 2, .first_steps = {30}, .steps = 4});
  CHECK_FALSE(tracer.is_wanted());
}

TEST_CASE("a server records the messages of the steps until it is told that the workers are done", "[tracer]") {
  const TempDir dir;
  Tracer tracer(Log::silent());
  tracer.set_place("server", 1, dir.path(), Log::silent());
  tracer.record_messages();
  CHECK(tracer.of_step(0, 7) == nullptr);
  tracer.request({.number = 1, .first_steps = {6}, .steps = 2});
  CHECK(tracer.of_step(0, 5) == nullptr);
  CHECK(tracer.of_step(0, 6) != nullptr);
  CHECK(tracer.of_step(0, 7) != nullptr);
  CHECK(tracer.of_step(0, 8) == nullptr);
  { Span(tracer.of_step(0, 7), "step", "server").with("step", 7); }
  tracer.forward_done(9);
  tracer.close(0);
  CHECK(tracer.written() == 0);
  tracer.close(1);
  CHECK(tracer.written() == 1);
  CHECK(tracer.of_step(0, 7) == nullptr);
  CHECK(traced_steps(dir.path("trace-server-1.json")) == std::vector<int64_t>{7});
}

TEST_CASE("the end of a process writes a trace that is in progress", "[tracer]") {
  const TempDir dir;
  Tracer tracer(Log::silent());
  tracer.set_place("worker", 0, dir.path(), Log::silent());
  REQUIRE(tracer.request_next(10));
  make_steps(tracer, 3, 5);
  CHECK(tracer.request_next(10).error().message == "trace 1 is not finished yet");
  tracer.finish();
  CHECK(traced_steps(dir.path("trace-worker-0.json")) == std::vector<int64_t>{3, 4});
  tracer.finish();
  CHECK(tracer.written() == 1);
}

TEST_CASE("workers that run free trace steps of their own, and a server those of each", "[tracer]") {
  const TempDir dir;
  const TraceRequest request{.number = 1, .first_steps = {40, 10}, .steps = 2};
  CHECK(steps_text(request) == "2 steps of each worker, starting at steps 10 to 40");
  CHECK(steps_text({.number = 1, .first_steps = {10, 10}, .steps = 2}) == "the steps 10 to 11");
  Tracer server(Log::silent());
  server.set_place("server", 0, dir.path(), Log::silent());
  server.record_messages();
  server.request(request);
  CHECK(server.of_step(0, 10) == nullptr);
  CHECK(server.of_step(0, 41) != nullptr);
  CHECK(server.of_step(1, 11) != nullptr);
  CHECK(server.of_step(1, 40) == nullptr);
  CHECK(server.of_step(2, 10) == nullptr);
  server.close(1);
  const auto first_step = [&](const std::string& file) {
    return parse_json(must(read_file(dir.path(file))))["otherData"]["first_step"];
  };
  CHECK(first_step("trace-server-0.json") == nlohmann::json({40, 10}));
  Tracer worker(Log::silent());
  worker.set_place("worker", 1, dir.path(), Log::silent());
  worker.request(request);
  make_steps(worker, 8, 50);
  CHECK(traced_steps(dir.path("trace-worker-1.json")) == std::vector<int64_t>{10, 11});
  CHECK(first_step("trace-worker-1.json") == 10);
}

TEST_CASE("a worker writes what it has of a trace that is over, and is done with one that it has not begun",
          "[tracer]") {
  const TempDir dir;
  Tracer tracer(Log::silent());
  tracer.set_place("worker", 0, dir.path(), Log::silent());
  tracer.request({.number = 1, .first_steps = {5}, .steps = 10});
  make_steps(tracer, 4, 7);
  tracer.close(1);
  CHECK(traced_steps(dir.path("trace-worker-0.json")) == std::vector<int64_t>{5, 6});
  tracer.request({.number = 2, .first_steps = {20}, .steps = 10});
  make_steps(tracer, 7, 9);
  tracer.close(2);
  CHECK(tracer.written() == 2);
  CHECK_FALSE(tracer.is_wanted());
  make_steps(tracer, 9, 40);
  CHECK(traced_steps(dir.path("trace-worker-0.json")) == std::vector<int64_t>{5, 6});
}
