// What the live page is told: everything at first, then what is new, always bounded.
#include "observe/job_facts.h"

#include <fstream>
#include <limits>
#include <memory>

#include "base/json.h"
#include "observe/page/page.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::observe;
using nlohmann::json;
using telemetry::Metric;

namespace {

ProcessState worker_state(uint32_t rank, double speed) {
  telemetry::Registry registry;
  registry.set(Metric::kSamplesPerS, speed);
  registry.set(Metric::kTrainCrossEntropy, 2.5);
  registry.set(Metric::kPhaseSeconds, 1.5, "forward");
  registry.set(Metric::kGpuBusyShare, 0.75, "1");
  registry.set(Metric::kGpuMemoryBytes, 30, "1");
  registry.set(Metric::kGpuMemoryTotalBytes, 80, "1");
  return {.source = {"worker", rank, "node1", registry.snapshot()}};
}

JobState state_at(double seconds, uint32_t workers = 1) {
  JobState state{.seconds = seconds, .step = static_cast<int64_t>(seconds), .steps = 100000};
  for (uint32_t rank = 0; rank < workers; rank++) state.processes.push_back(worker_state(rank, 100 + rank));
  return state;
}

// The data of an event; fails if it is not of this kind.
json data_of(const std::string& event, const std::string& kind) {
  const std::string begin = "event: " + kind + "\ndata: ";
  REQUIRE(event.substr(0, begin.size()) == begin);
  REQUIRE(event.ends_with("\n\n"));
  REQUIRE(event.find('\n', begin.size()) == event.size() - 2);
  return json::parse(event.substr(begin.size()));
}

}  // namespace

TEST_CASE("a new client gets the history, then what is new", "[observe]") {
  JobFacts facts({.name = "lenet-1", .network = "lenet", .scheme = "dist_sync", .workers = 2});
  facts.update(state_at(1, 2));
  facts.update(state_at(2, 2));
  facts.add_log(
      {{"worker 0", "2026-11-25 10:00:00,000 Node[0] Epoch[0] Validation-accuracy=0.5"}, {"server 0", "x\ny"}});
  const std::unique_ptr<net::EventStream> client = facts.follow();
  const json all = data_of(client->take(), "history");
  CHECK(all["job"]["name"] == "lenet-1");
  CHECK(all["job"]["phases"][0] == json({"data_wait", "waiting for data", true}));
  CHECK(all["job"]["phases"].size() == 9);
  CHECK(all["points"].size() == 2);
  CHECK(all["points"][1][2] == 2.5);
  CHECK(all["points"][1][4].is_null());
  CHECK(all["points"][1][7] == json({100, 101}));
  CHECK(all["state"]["processes"][1]["metrics"]["samples_per_s"] == 101);
  CHECK(all["state"]["processes"][0]["shares"]["forward"] == 1);
  CHECK(all["state"]["processes"][0]["metrics"]["gpu_busy_share"]["1"] == 0.75);
  CHECK(all["state"]["processes"][0]["metrics"]["gpu_memory_bytes"]["1"] == 30);
  CHECK(all["state"]["processes"][0]["metrics"]["gpu_memory_total_bytes"]["1"] == 80);
  CHECK(all["events"][0][1] == "validation");
  CHECK(all["log"].size() == 2);
  CHECK(client->take().empty());

  JobState state = state_at(3, 2);
  state.processes[1].is_lost = true;
  facts.update(std::move(state));
  facts.add_log({{"worker 1", "plain"}});
  const json more = data_of(client->take(), "update");
  CHECK_FALSE(more.contains("job"));
  CHECK(more["points"].size() == 1);
  CHECK(more["state"]["processes"][0]["lost"] == false);
  CHECK(more["state"]["processes"][1]["lost"] == true);
  CHECK(more["log"][0] == json({"worker 1", "plain"}));
  CHECK(more["events"].empty());
  facts.end(false, "worker 1 was lost");
  const json end = data_of(client->take(), "update");
  CHECK(end["state"]["ended"] == "worker 1 was lost");
  CHECK(end["state"]["success"] == false);
}

TEST_CASE("Prometheus finds the processes that serve their own metrics", "[observe]") {
  JobFacts facts({.name = "lenet-1"});
  CHECK(facts.targets() == "[]");
  telemetry::Registry registry;
  registry.set(Metric::kEndpoint, 1, "10.0.0.7:41000");
  JobState state = state_at(1, 2);
  state.processes[1].source.snapshot = registry.snapshot();
  facts.update(std::move(state));
  CHECK(json::parse(facts.targets()) == json::parse(R"([{"targets": ["10.0.0.7:41000"],
                         "labels": {"job": "lenet-1", "role": "worker", "rank": "1", "host": "node1"}}])"));
  telemetry::Registry encrypted;
  encrypted.set(Metric::kEndpoint, 1, "https://10.0.0.7:41000");
  JobState with_tls = state_at(2, 2);
  with_tls.processes[1].source.snapshot = encrypted.snapshot();
  facts.update(std::move(with_tls));
  const json target = json::parse(facts.targets())[0];
  CHECK(target["targets"][0] == "10.0.0.7:41000");
  CHECK(target["labels"]["__scheme__"] == "https");
}

TEST_CASE("a long job keeps its curves from the beginning, thinned", "[observe]") {
  JobFacts facts({.name = "long"});
  for (int i = 1; i <= 20000; i++) facts.update(state_at(i, 12));
  for (int i = 0; i < 1000; i++) facts.add_log({{"worker 0", "t Node[0] Saved checkpoint to \"x\""}});
  const json all = json::parse(facts.history());
  const json& points = all["points"];
  CHECK(points.size() <= kCurvePointsMax);
  CHECK(points.size() >= kCurvePointsMax / 2);
  CHECK(points.front()[0] == 1);
  CHECK(points.back()[0] > 20000 - 200);
  CHECK(points.back()[7].size() == kCurveWorkersMax);
  CHECK(all["events"].size() == 300);
  CHECK(all["log"].size() == 200);
  CHECK(facts.history().size() < 200000);
}

// The page takes its newest numbers from here, because a long job adds a point to the curves only once in some minutes.
TEST_CASE("the newest values are told however thin the curves are", "[observe]") {
  JobFacts facts({.name = "long"});
  for (int i = 1; i <= 2000; i++) facts.update(state_at(i));
  telemetry::Registry registry;
  registry.set(Metric::kTrainCrossEntropy, 0.5);
  registry.set(Metric::kValidationAccuracy, 0.99);
  JobState last = state_at(2001);
  last.processes[0].source.snapshot = registry.snapshot();
  facts.update(std::move(last));
  facts.end(true, "the job has ended");
  const json all = json::parse(facts.history());
  CHECK(all["points"].back()[0] < 2001);
  CHECK(all["state"]["now"][0] == 2001);
  CHECK(all["state"]["now"][2] == 0.5);
  CHECK(all["state"]["now"][4] == 0.99);
}

// The bar of a worker and the words about its waits are made of these shares.
TEST_CASE("the shares of a worker's time are those of the last 15 s", "[observe]") {
  JobFacts facts({.name = "a"});
  const auto process_at = [&](double seconds, double data_wait, double pull_wait, double forward) {
    telemetry::Registry registry;
    registry.set(Metric::kPhaseSeconds, data_wait, "data_wait");
    registry.set(Metric::kPhaseSeconds, pull_wait, "pull_wait");
    registry.set(Metric::kPhaseSeconds, forward, "forward");
    JobState state{.seconds = seconds};
    state.processes.push_back({.source = {"worker", 0, "node1", registry.snapshot()}});
    facts.update(std::move(state));
    return json::parse(facts.history())["state"]["processes"][0];
  };
  CHECK(process_at(1, 1, 0, 0)["shares"] == json({{"data_wait", 1.0}}));  // new: of all its time
  CHECK(process_at(2, 1, 0, 1)["shares"] == json({{"data_wait", 0.5}, {"forward", 0.5}}));
  CHECK(process_at(5, 2, 0, 3)["shares"] == json({{"data_wait", 0.25}, {"forward", 0.75}}));  // since the first second
  // The wait of the beginning is forgotten, and one that is too short to be seen in the bar is none.
  for (int second = 6; second <= 30; second++) process_at(second, 2, 0, second - 2);
  CHECK(process_at(31, 2, 0.125, 29.875)["shares"] == json({{"forward", 0.9921875}, {"other", 0.0078125}}));
  CHECK(process_at(32, 2, 4, 29.875)["shares"].contains("pull_wait"));
  CHECK(process_at(60, 2, 4, 29.875)["shares"].is_null());  // no step for a long time
  const json phases = json::parse(facts.history())["job"]["phases"];
  for (const json& phase : phases) CHECK(phase[2] == (phase[0] == "data_wait" || phase[0] == "pull_wait"));
}

TEST_CASE("a server is busy as much as its threads were in the last 15 s", "[observe]") {
  JobFacts facts({.name = "a"});
  const auto busy_at = [&](double seconds, double busy_s) {
    telemetry::Registry registry;
    registry.set(Metric::kServerBusySeconds, busy_s);
    JobState state{.seconds = seconds};
    state.processes.push_back({.source = {"server", 0, "node1", registry.snapshot()}});
    facts.update(std::move(state));
    return json::parse(facts.history())["state"]["processes"][0]["busy"];
  };
  CHECK(busy_at(1, 1).is_null());
  CHECK(busy_at(5, 2) == 0.25);
  CHECK(busy_at(20, 2) == 0);  // since the fifth second
}

TEST_CASE("events count epochs from 1", "[observe]") {
  JobFacts facts({.name = "a"});
  JobState state = state_at(1);
  state.epochs = 20;
  facts.update(std::move(state));
  const auto log = [&](const std::string& text) {
    facts.add_log({{"worker 0", "2026-11-25 10:00:00,000 Node[0] " + text}});
    return json::parse(facts.history())["events"].back()[2].get<std::string>();
  };
  CHECK(log("Epoch[0] Validation-accuracy=0.300000") == "worker 0: epoch 1 of 20: Validation-accuracy=0.300000");
  CHECK(log("Epoch[9] Batch [99] Validation-accuracy=0.3") ==
        "worker 0: epoch 10 of 20: Batch [99] Validation-accuracy=0.3");
  CHECK(log("warning: Epoch[x] is no epoch") == "worker 0: Epoch[x] is no epoch");
  CHECK(log("Stopped after 3 epochs") == "worker 0: Stopped after 3 epochs");
}

TEST_CASE("a worker's own steps are shown together with the updates that it has seen", "[observe]") {
  JobFacts facts({.name = "a"});
  JobState state = state_at(1, 2);
  state.processes[1].steps = 17;
  facts.update(std::move(state));
  const json processes = json::parse(facts.history())["state"]["processes"];
  CHECK(processes[0]["steps"].is_null());
  CHECK(processes[1]["steps"] == 17);
}

TEST_CASE("the logs of the run before tell of no events of the job that resumes it", "[observe]") {
  JobFacts facts({.name = "a"});
  facts.add_earlier_log(
      {{"scheduler", "t Node[scheduler] warning: lost role=worker rank=2 silent_ms=1532 policy=fail"}});
  facts.add_log({{"worker 0", "2026-11-25 10:00:00,000 Node[0] Saved checkpoint to \"x\""}});
  const json all = json::parse(facts.history());
  CHECK(all["log"].size() == 2);
  REQUIRE(all["events"].size() == 1);
  CHECK(all["events"][0][1] == "checkpoint");
}

TEST_CASE("values that JSON lacks are null, and bytes that are not UTF-8 are replaced", "[observe]") {
  JobFacts facts({.name = "a\xff\"</script>"});
  JobState state = state_at(1);
  state.samples_per_s = std::numeric_limits<double>::quiet_NaN();
  state.processes[0].wait = "key \x01 of \xc3";
  facts.update(state);
  const json all = json::parse(facts.history());
  CHECK(all["state"]["samples_per_s"].is_null());
  CHECK(all["job"]["name"] == "a\uFFFD\"</script>");
}

TEST_CASE("log lines that tell of an event", "[observe]") {
  const auto kind = [](const std::string& text) {
    return event_of("2026-11-25 10:00:00,000 Node[scheduler] " + text).kind;
  };
  CHECK(kind("warning: lost role=worker rank=1 silent_ms=3000 policy=fail") == "loss");
  CHECK(kind("join role=worker rank=1 host=a addr=b incarnation=0") == "join");
  CHECK(kind("Saved checkpoint to \"a-0001.params\"") == "checkpoint");
  CHECK(kind("New groups: 0 1 | 2") == "regroup");
  CHECK(kind("Epoch[3] Validation-accuracy=0.300000") == "validation");
  CHECK(kind("Epoch[3] Batch [99] Validation-accuracy=0.300000") == "validation");
  CHECK(kind("Epoch[3] Train-accuracy=0.300000").empty());
  CHECK(kind("Stopped after 2 epochs, because TERM") == "stop");
  CHECK(kind("Finished after 6 epochs and 15.2 s; see runs/a") == "finish");
  CHECK(kind("warning: slow: worker 1 (vm) takes 117 ms per step, other workers 11: it computes for 114 ms") == "slow");
  CHECK(kind("warning: the training loss of epoch 0 is 2.3884, no better than guessing") == "warning");
  CHECK(kind("what would help most: a larger --batch-size") == "advice");
  CHECK(event_of("Saved checkpoint to").kind.empty());
  CHECK(event_of(" Node[0").kind.empty());
}

TEST_CASE("events tell of processes in words", "[observe]") {
  const auto text = [](const std::string& line) {
    return event_of("2026-11-25 10:00:00,000 Node[scheduler] " + line).text;
  };
  CHECK(text("join role=server rank=1 host=node3 addr=10.0.0.3:40131 incarnation=9408") ==
        "server 1 on node3 (10.0.0.3:40131)");
  CHECK(text("warning: lost role=worker rank=2 silent_ms=1532 policy=fail") == "worker 2, silent for 1.5 s");
  CHECK(text("join role=worker") == "join role=worker");
  CHECK(text("lost role=worker rank=2 silent_ms=x") == "lost role=worker rank=2 silent_ms=x");
  CHECK(text("warning: slow: worker 1 (vm) takes 117 ms") == "worker 1 (vm) takes 117 ms");
  CHECK(text("what would help most: a larger --batch-size") == "what would help most: a larger --batch-size");
}

TEST_CASE("the logs of a run are followed line by line", "[observe]") {
  const test::TempDir dir;
  LogTail tail(dir.path("run"));
  CHECK(tail.take().empty());  // the directory is not there yet
  std::filesystem::create_directory(dir.path("run"));
  std::ofstream log(dir.path("run/worker-1.log"));
  log << "first\nsec" << std::flush;
  CHECK(tail.take() == std::vector<LogLine>{{"worker 1", "first"}});
  log << "ond\n" << std::flush;
  CHECK(tail.take() == std::vector<LogLine>{{"worker 1", "second"}});
  log << std::string(1 << 20, 'x') << "\nlast\n" << std::flush;
  const std::vector<LogLine> end = tail.take();
  REQUIRE(end.size() == 2);
  CHECK(end[0].text.size() == kLogLineBytesMax);
  CHECK(end[1].text == "last");
  std::ofstream(dir.path("run/worker-1.log")) << "again\n" << std::flush;
  std::ofstream(dir.path("run/other.txt")) << "no log\n" << std::flush;
  std::filesystem::create_directory(dir.path("run/directory.log"));
  CHECK(tail.take() == std::vector<LogLine>{{"worker 1", "again"}});
}

TEST_CASE("the page needs nothing from another address", "[observe]") {
  const std::string page(live_page());
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("</html>") != std::string::npos);
  for (const char* absent : {"https://", " style=\"", " onclick", "innerHTML", "eval("}) {
    INFO(absent);
    CHECK(page.find(absent) == std::string::npos);
  }
  size_t addresses = 0;  // the name space of SVG is a name, not an address
  for (size_t at = page.find("http://"); at != std::string::npos; at = page.find("http://", at + 1)) {
    CHECK(page.substr(at, 26) == "http://www.w3.org/2000/svg");
    addresses++;
  }
  CHECK(addresses == 1);
}
