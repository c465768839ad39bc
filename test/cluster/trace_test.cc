// --trace and SIGUSR2 in real jobs: what all processes wrote is one file that Perfetto can show.
#include <algorithm>
#include <csignal>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "cluster/lenet_run.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct TracedSpan {
  std::string process, name;
  double begin = 0, end = 0;
  nlohmann::json arguments;
};

struct TracedArrow {
  char point = ' ';
  std::string span;  // that it is bound to: the innermost around it
  double at = 0;
};

// A trace as a viewer understands it. REQUIREs that spans of a thread lie inside each other or apart.
struct ReadTrace {
  nlohmann::json about;
  std::vector<TracedSpan> spans;
  std::map<std::string, std::vector<TracedArrow>> arrows;  // by id, in the order of time

  explicit ReadTrace(const std::string& path) {
    const nlohmann::json all = parse_json(must(read_file(path)));
    REQUIRE(all.is_object());
    about = all["otherData"];
    std::map<int64_t, std::string> processes;
    std::map<std::pair<int64_t, int64_t>, std::vector<TracedSpan>> threads;
    for (const nlohmann::json& event : all["traceEvents"]) {
      if (event["ph"] == "M" && event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
      if (event["ph"] != "X") continue;
      const double begin = event["ts"].get<double>();
      threads[{event["pid"], event["tid"]}].push_back({.process = processes[event["pid"]],
                                                       .name = event["name"],
                                                       .begin = begin,
                                                       .end = begin + event["dur"].get<double>(),
                                                       .arguments = event.value("args", nlohmann::json::object())});
    }
    for (const auto& [thread, of_thread] : threads) check_nesting(of_thread);
    for (const nlohmann::json& event : all["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase != "s" && phase != "t" && phase != "f") continue;
      const double at = event["ts"].get<double>();
      const TracedSpan* inner = nullptr;
      for (const TracedSpan& span : threads[{event["pid"], event["tid"]}]) {
        if (span.begin <= at && at <= span.end && (inner == nullptr || span.begin >= inner->begin)) inner = &span;
      }
      arrows[event["id"]].push_back({phase[0], inner == nullptr ? "" : inner->name, at});
    }
    for (auto& [thread, of_thread] : threads) spans.insert(spans.end(), of_thread.begin(), of_thread.end());
  }

  static void check_nesting(const std::vector<TracedSpan>& spans) {
    constexpr double kRounding = 0.002;  // microseconds
    std::vector<double> open;
    for (const TracedSpan& span : spans) {
      while (!open.empty() && open.back() <= span.begin + kRounding) open.pop_back();
      INFO(span.process << ": " << span.name << " from " << span.begin << " to " << span.end);
      if (!open.empty()) CHECK(span.end <= open.back() + kRounding);
      open.push_back(span.end);
    }
  }

  [[nodiscard]] std::set<std::string> names_in(const std::string& process) const {
    std::set<std::string> names;
    for (const TracedSpan& span : spans) {
      if (span.process == process) names.insert(span.name);
    }
    return names;
  }
  [[nodiscard]] std::set<int64_t> steps_in(const std::string& process, const std::string& name) const {
    std::set<int64_t> steps;
    for (const TracedSpan& span : spans) {
      if (span.process == process && span.name == name) steps.insert(span.arguments.value("step", int64_t{-1}));
    }
    return steps;
  }
  [[nodiscard]] double clock_error_us() const {
    double most = 0;
    for (const nlohmann::json& process : about["processes"]) {
      REQUIRE(process["clock_error_us"].is_number());
      most = std::max(most, process["clock_error_us"].get<double>());
    }
    return most;
  }
};

double when(const std::vector<TracedArrow>& arrow, const std::string& span) {
  const auto found = std::ranges::find(arrow, span, &TracedArrow::span);
  REQUIRE(found != arrow.end());
  return found->at;
}

std::vector<size_t> images(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::string> lenet_command(const TempDir& dir, const std::vector<std::string>& more) {
  return command_line(dtrain_program(), "--network lenet --data-dir", dir.path("data"),
                      "--threads 1 --batch-size 10 --num-epochs 1 --run-dir", dir.path("run"), more);
}

}  // namespace

// Each arrow that is whole goes from a worker's push through the server's update to the arrival of the weights, in this
// order of time, as far as the clocks are known.
TEST_CASE("a job of two workers and two servers traces the same steps on one clock", "[trace]") {
  const TempDir dir;
  write_mnist(dir.path("data"), images(240));
  const Ended end = run(lenet_command(dir, {"-n", "2", "-s", "2", "--kv-store", "dist_sync", "--trace", "3"}),
                        {.deadline_s = 60, .directory = dir.path(), .environment = {}});
  INFO(end.output);
  REQUIRE(end.code == 0);
  const ReadTrace trace(dir.path("run/trace.json"));
  const std::set<int64_t> steps = {5, 6, 7};
  for (const char* worker : {"worker 0", "worker 1"}) {
    INFO(worker);
    const std::set<std::string> names = trace.names_in(worker);
    for (const char* name :
         {"forward", "backward", "push", "take an answer", "wait for data", "convolution1: convolution"}) {
      INFO(name);
      CHECK(std::ranges::any_of(names, [&](const std::string& n) { return n.starts_with(name); }));
    }
    CHECK(trace.steps_in(worker, "step") == steps);
    CHECK(trace.steps_in(worker, "hand over gradients") == steps);
  }
  for (const char* server : {"server 0", "server 1"}) {
    INFO(server);
    CHECK(trace.steps_in(server, "add") == steps);
    CHECK(trace.steps_in(server, "apply") == steps);
    for (const char* name : {"receive a gradient", "answer"}) CHECK(trace.names_in(server).contains(name));
  }
  const double error = 2 * trace.clock_error_us();
  size_t whole = 0;
  for (const auto& [id, points] : trace.arrows) {
    INFO("arrow " << id);
    const auto has = [&](char point) { return std::ranges::count(points, point, &TracedArrow::point) > 0; };
    // At the beginning, gradients of the step before may still be on their way.
    const bool is_whole = has('s') && has('t') && has('f');
    for (const TracedArrow& point : points) CHECK_FALSE(point.span.empty());
    if (!is_whole) continue;
    whole++;
    CHECK(when(points, "push") <= when(points, "apply") + error);
    CHECK(when(points, "apply") <= when(points, "take an answer") + error);
  }
  CHECK(whole >= 2 * 3 * 8);  // workers, steps, arrays of lenet
}

TEST_CASE("a process alone writes its trace, and another one after SIGUSR2", "[trace]") {
  const TempDir dir;
  write_mnist(dir.path("data"), images(240));
  Process alone(lenet_command(dir, {"--trace", "2", "--num-epochs", "1000"}),
                {.directory = dir.path(), .environment = {}});
  const bool first = alone.wait_for_output("trace 1 of the steps 5 to 6", 60);
  alone.signal(SIGUSR2);
  const bool second = alone.wait_for_output("trace 2 of the steps", 60);
  alone.signal(SIGTERM);
  const Ended end = alone.wait(60);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(first);
  CHECK(second);
  const ReadTrace trace(dir.path("run/trace.json"));
  CHECK(trace.about["trace"] == 2);
  CHECK(trace.steps_in("worker 0", "step").size() == 2);
  CHECK(*trace.steps_in("worker 0", "step").begin() > 6);
}

// Worker 1 is four times slower, and nobody waits for it, so the steps that worker 0 makes next are far beyond its own.
TEST_CASE("in a job whose workers run free, a trace is of the next steps of each worker", "[trace]") {
  const TempDir dir;
  write_mnist(dir.path("data"), images(240));
  Process job(lenet_command(dir, {"-n", "2", "-s", "1", "--kv-store", "dist_async", "--num-epochs", "1000", "--inject",
                                  "step-ms=100,step-ms=400@worker:1", "--heartbeat-interval", "100ms"}),
              {.directory = dir.path(), .environment = {}});
  const bool began = job.wait_for_output("Epoch[2] ", 60);
  job.signal(SIGUSR2);
  bool traced = began;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (const char* file : {"run/trace-worker-0.json", "run/trace-worker-1.json", "run/trace-server-0.json"}) {
    const auto is_written = [&] { return std::filesystem::exists(dir.path(file)); };
    while (!is_written() && job.running() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    traced = traced && is_written();
  }
  job.signal(SIGTERM);
  const Ended end = job.wait(60);
  INFO(end.output);
  REQUIRE(traced);
  CHECK(end.code == 75);
  const ReadTrace trace(dir.path("run/trace.json"));
  const std::set<int64_t> fast = trace.steps_in("worker 0", "step"), slow = trace.steps_in("worker 1", "step");
  REQUIRE(fast.size() == 10);
  REQUIRE(slow.size() == 10);
  CHECK(*slow.rbegin() < *fast.begin());
  std::set<int64_t> all = fast;
  all.insert(slow.begin(), slow.end());
  CHECK(trace.steps_in("server 0", "add") == all);
}
