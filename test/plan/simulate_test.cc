#include "plan/simulate.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "sync/small_event_log.h"

using namespace dtrain;
using namespace dtrain::plan;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

SimulateResult run(const SimulateOptions& options) {
  return must(simulate(options, {.line = [](std::string_view) {}, .live = [](const Live&) {}}));
}

std::string error_of(const SimulateOptions& options) {
  const auto result = simulate(options, {.line = [](std::string_view) {}, .live = [](const Live&) {}});
  return result ? "" : result.error().text();
}

const Outcome& outcome_of(const SimulateResult& result, std::string_view scheme) {
  for (const SchemeResult& entry : result.schemes) {
    if (entry.name.substr(0, scheme.size()) == scheme) return entry.outcome;
  }
  throw std::runtime_error("no scheme " + std::string(scheme));
}

}  // namespace

TEST_CASE("simulate compares the schemes", "[plan]") {
  const SimulateOptions options = {
      .servers = 2, .steps = 40, .speeds = "10x3,30", .bytes = 100000, .staleness = 2, .backup = 1};
  const SimulateResult result = run(options);
  std::vector<std::string> names;
  for (const SchemeResult& scheme : result.schemes) names.push_back(scheme.name);
  CHECK(names == std::vector<std::string>{"bsp", "bsp backup 1", "asp", "ssp lead 2", "gsp 2 groups"});
  CHECK(result.all_finished());
  // Where others wait for the slow worker, the job takes its 40 steps of 30 ms. Without it, the other three workers
  // need 4/3 of 40 rounds.
  CHECK(outcome_of(result, "bsp").seconds == Approx(1.2).epsilon(0.05));
  CHECK(outcome_of(result, "ssp").seconds == Approx(1.2).epsilon(0.05));
  CHECK(outcome_of(result, "bsp backup").seconds == Approx(0.54).epsilon(0.1));
  CHECK(outcome_of(result, "asp").seconds == Approx(0.48).epsilon(0.1));
  CHECK(outcome_of(result, "gsp").seconds == Approx(0.48).epsilon(0.1));
  CHECK(outcome_of(result, "bsp").workers[0].waiting_s > 0.7);
  CHECK(outcome_of(result, "gsp").workers[0].waiting_s < 0.1);
  CHECK(outcome_of(result, "bsp backup").late > 5);

  const std::string text = result.text();
  CHECK_THAT(text,
             Contains("4 workers, 10 to 30 ms a step +-5 %; 2 servers, 0.1 MB a step, 10 Gbit/s, 0.1 ms; seed 1"));
  CHECK_THAT(text, Contains("\nssp lead 2 ") && Contains("10 ms x 3") && Contains("\nstaleness "));
  const auto json = nlohmann::json::parse(result.json());
  CHECK(json["schemes"].size() == 5);
  CHECK(json["schemes"][0]["updates"] == 40);
  CHECK(json["schemes"][0]["staleness"][0] == nlohmann::json({1, 40}));
  CHECK(json["schemes"][3]["workers"].size() == 4);
  CHECK_FALSE(json["schemes"][0].contains("loss"));
  const std::string csv = result.csv();
  CHECK(csv.rfind("scheme,quantity,index,value\nbsp,epoch_s,0,", 0) == 0);
  CHECK_THAT(csv, Contains("\nbsp,staleness,1,40\n") && Contains("\ngsp 2 groups,steps,3,"));
  CHECK(run(options).text() == text);
  SimulateOptions other = options;
  other.seed = 2;
  CHECK(run(other).csv() != csv);
}

TEST_CASE("simulate offers the faults and changes of a job", "[plan]") {
  const SimulateResult result =
      run({.steps = 30,
           .num_epochs = 2,
           .speeds = "10x4",
           .bytes = 1000,
           .inject =
               [] {
                 job::Inject inject;
                 must(job::parse_value(
                     "drop=0.05,dup=0.05,delay=0..5ms,step-ms=40@worker:3,kill=worker:1@step:12,seed=7", inject));
                 return inject;
               }(),
           .join = "5:2"});
  CHECK(result.all_finished());
  CHECK(result.step_ms == std::vector<double>{10, 10, 10, 40, 10, 10});
  const Outcome& bsp = outcome_of(result, "bsp");
  CHECK(bsp.epoch_s.size() == 2);
  CHECK(bsp.workers[1].steps == 12);
  CHECK(bsp.workers[4].steps >= 54);
  CHECK(run({.workers = 8, .steps = 20, .leave_percent = 50}).all_finished());
}

TEST_CASE("simulate reads speeds and groups from files", "[plan]") {
  const test::TempDir dir;
  must(write_file_atomic(dir.path("speeds"), "98x2\n100 102,60x2\n59 61\n30x5\n"));
  // MXNet-G's file `groups`: 12 workers in 3 groups.
  must(write_file_atomic(dir.path("groups"),
                         "10.10.10.25 10.10.10.26\n"
                         "10.10.10.29 10.10.10.29 10.10.10.30 10.10.10.30\n"
                         "10.10.10.31 10.10.10.31 10.10.10.31 10.10.10.33 10.10.10.33 10.10.10.33\n"));
  must(write_file_atomic(dir.path("ranks"), "#0 #2\n#1 #3\n"));
  const SimulateOptions twelve = {
      .scheme = "gsp", .steps = 5, .speeds = dir.path("speeds"), .groups_file = dir.path("groups")};
  CHECK_THAT(error_of(twelve), Contains("reading the groups of 13 workers"));
  SimulateOptions options = twelve;
  must(write_file_atomic(dir.path("speeds"), "98x2\n100 102,60x2\n59 61\n30x4\n"));
  CHECK(run(options).schemes[0].name == "gsp 3 groups");
  options = {.scheme = "gsp", .workers = 4, .steps = 5, .groups_file = dir.path("ranks")};
  CHECK(run(options).schemes[0].name == "gsp 2 groups");
  options.workers = 5;
  CHECK_THAT(error_of(options), Contains("worker 4") || Contains("#4"));
  options.groups_file = dir.path("none");
  CHECK_THAT(error_of(options), Contains(dir.path("none")));
}

TEST_CASE("simulate refuses flags that contradict each other", "[plan]") {
  CHECK_THAT(error_of({.workers = 3, .speeds = "10x4"}), Contains("--speeds lists 4 workers, but --workers is 3"));
  CHECK_THAT(error_of({.speeds = "10x"}), Contains("--speeds") && Contains("10x"));
  CHECK_THAT(error_of({.speeds = "nofile"}), Contains("nofile"));
  CHECK_THAT(error_of({.speeds = "10x100000"}), Contains("out of range"));
  CHECK_THAT(error_of({.jitter = 1.5}), Contains("--jitter"));
  CHECK_THAT(error_of({.leave_percent = 101}), Contains("--leave-percent"));
  CHECK_THAT(error_of({.join = "5"}), Contains("--join") && Contains("':'"));
  CHECK_THAT(error_of({.join = "-1:2"}), Contains("--join"));
  CHECK_THAT(error_of({.backup = 4}), Contains("--backup 4: must be less than the number of workers, 4"));
  CHECK_THAT(error_of({.workers = 65536, .servers = 1000}), Contains("more than a simulation can have"));
  CHECK_THAT(error_of({.loss = 0.5, .data_dir = "/nowhere"}), Contains("/nowhere"));
  CHECK_THAT(error_of({.speeds = "99999999x2"}), Contains("--speeds: 99999999 ms is too long for a step"));
  CHECK_THAT(error_of({.bandwidth = 1e-9}), Contains("--bandwidth"));
  job::Inject inject;
  must(job::parse_value("kill=server:0@step:3", inject));
  CHECK_THAT(error_of({.inject = inject}), Contains("a simulation can kill only workers"));
  must(job::parse_value("stop=worker:0@step:3", inject));
  CHECK_THAT(error_of({.inject = inject}), Contains("only at a step, and stop none"));
  must(job::parse_value("step-ms=40@worker:4", inject));
  CHECK_THAT(error_of({.workers = 4, .inject = inject}), Contains("there is no worker:4"));
  must(job::parse_value("drop=0.1@server:1", inject));
  CHECK_THAT(error_of({.inject = inject}), Contains("there is no server:1"));
  must(job::parse_value("index-ms=40", inject));
  CHECK_THAT(error_of({.inject = inject}), Contains("index-ms") && Contains("reads no record files"));
}

// A slow worker costs time under BSP and causes staleness under ASP. GSP has less of both.
TEST_CASE("simulate predicts the time to a loss", "[plan]") {
  const SimulateResult result =
      run({.steps = 40, .speeds = "10x3,40", .bytes = 1000, .loss = 0.6, .batch_size = 16, .lr = 0.1});
  for (const SchemeResult& scheme : result.schemes) {
    INFO(scheme.name);
    REQUIRE(scheme.reached_s.has_value());
    CHECK(scheme.last_loss <= 0.6);
  }
  CHECK(*result.schemes[3].reached_s < 0.6 * *result.schemes[0].reached_s);
  CHECK_THAT(result.text(), Contains("s to loss 0.6"));
  CHECK_THAT(result.csv(), Contains("gsp 2 groups,seconds_to_loss,0,"));
  CHECK(nlohmann::json::parse(result.json())["schemes"][0]["seconds_to_loss"] > 0);
}

TEST_CASE("simulate replays an event log", "[plan]") {
  const test::TempDir dir;
  std::string event_log = test::small_event_log();
  must(write_file_atomic(dir.path("trace"), event_log));
  std::string out;
  const auto print = [&](std::string_view piece) { out += piece; };
  CHECK_FALSE(must(replay_file(dir.path("trace"), print)).difference.has_value());
  CHECK(out == event_log);
  must(write_file_atomic(dir.path("trace"), event_log + "7.0 leave 0\n  apply group 0 staleness 1\n"));
  const auto difference = must(replay_file(dir.path("trace"), print)).difference;
  REQUIRE(difference.has_value());
  CHECK(difference->in_log == "  apply group 0 staleness 1");
  CHECK_THAT(replay_file(dir.path("none"), print).error().text(), Contains("none"));
}

TEST_CASE("simulate compares the policies for lost workers", "[plan]") {
  const SimulateOptions options = {.workers = 50,
                                   .steps = 3600,
                                   .num_epochs = 20,
                                   .jitter = 0,
                                   .latency_ms = 0,
                                   .bandwidth = 0,
                                   .mtbf_hours = 100,
                                   .save_every = std::chrono::minutes(1)};
  const SimulateResult result = run(options);
  REQUIRE(result.schemes.size() == 4);
  for (const SchemeResult& scheme : result.schemes) {
    CHECK(scheme.job_s == Approx(7200).epsilon(0.02));
    REQUIRE(scheme.policies.size() == 3);
    for (const PolicyResult& policy : scheme.policies) {
      CHECK(policy.finished == policy.jobs);
      CHECK(policy.losses == Approx(policy.mean_s / 3600 * 50 / 100).epsilon(0.25));
    }
    CHECK(scheme.policies[1].workers_at_end == Approx(50 - scheme.policies[1].losses).margin(0.1));  // or all again
  }
  const std::string text = result.text();
  CHECK_THAT(text, Contains("a worker is lost after 100 hours on average, noticed after 10 s, replaced after 60 s; "
                            "checkpoints every 60 s and every epoch\n"
                            "the scheduler is lost as often, and then all start again (no --state-dir)\n"
                            "the server is lost as often, and then all start again (no --snapshot-every)\n\n"));
  CHECK_THAT(text, Contains("\nbsp             no loss        2.00\nbsp             wait"));
  const auto json = nlohmann::json::parse(result.json());
  CHECK(json["schemes"][0]["policies"][2]["policy"] == "restart");
  CHECK_THAT(result.csv(), Contains("bsp,restart repeated_s,0,"));

  SimulateOptions one = options;
  one.policy = "shrink";
  CHECK(run(one).schemes[0].policies.size() == 1);
}

TEST_CASE("simulate says what lost servers cost with snapshots", "[plan]") {
  const SimulateOptions options = {.workers = 5,
                                   .servers = 20,
                                   .steps = 3600,
                                   .num_epochs = 20,
                                   .jitter = 0,
                                   .latency_ms = 0,
                                   .bandwidth = 0,
                                   .bytes = 2'000'000'000,
                                   .backup = 1,
                                   .mtbf_hours = 20,
                                   .policy = "wait",
                                   .save_every = std::chrono::minutes(10),
                                   .snapshot_every = 100};
  const SimulateResult result = run(options);
  REQUIRE(result.schemes.size() == 5);
  for (const SchemeResult& scheme : result.schemes) {
    INFO(scheme.name);
    const PolicyResult& policy = scheme.policies.at(0);
    CHECK(policy.finished == policy.jobs);
    const bool goes_back = scheme.name == "bsp";
    CHECK(scheme.server_loss == (goes_back ? ServerLoss::kGoBack : ServerLoss::kContinue));
    if (goes_back) {
      CHECK(policy.updates_undone == 0);
      continue;
    }
    // A server writes 200 MB in a second. Until then it lacks the updates since the snapshot before.
    const double lacks = 50 + scheme.outcome.updates_per_s(), hours = policy.mean_s / 3600;
    CHECK(policy.updates_undone == Approx(options.servers / options.mtbf_hours * hours * lacks).epsilon(0.1));
  }
  CHECK_THAT(
      result.text(),
      Contains(
          "each of the 20 servers is lost as often, and replaced as a worker is, while all workers stand "
          "still; snapshots every 100 updates, each written in 1.0 s\n"
          "bsp then goes back to the newest snapshot that all servers have\n"
          "in schemes other than bsp, the replaced server then lacks the updates since its own newest snapshot\n\n") &&
          Contains("     workers    undone\n"));
  const auto json = nlohmann::json::parse(result.json());
  CHECK((json["snapshot_every"] == 100 && json["snapshot_write_s"] == 1));
  CHECK((json["schemes"][0]["server_loss"] == "go back" && json["schemes"][1]["server_loss"] == "continue"));
  CHECK(json["schemes"][1]["policies"][0]["updates_undone"] > 0);
  CHECK_THAT(result.csv(), Contains("\nbsp,servers,0,20\nbsp,snapshot_every,0,100\nbsp,snapshot_write_s,0,1\n"
                                    "bsp,server_loss go back,0,1\n") &&
                               Contains("\nasp,wait updates_undone,0,"));

  // Writing takes longer than 10 updates do, so the servers wait for it: they lack 10 to 20 updates.
  SimulateOptions often = options;
  often.scheme = "asp";
  often.snapshot_every = 10;
  const PolicyResult waits = run(often).schemes[0].policies[0];
  CHECK(waits.updates_undone == Approx(options.servers / options.mtbf_hours * waits.mean_s / 3600 * 15).epsilon(0.1));

  // More servers are lost more often.
  SimulateOptions one = options;
  one.servers = 1;
  CHECK(run(one).schemes[0].policies[0].losses < 0.5 * result.schemes[0].policies[0].losses);
}

TEST_CASE("simulate refuses losses that it cannot simulate", "[plan]") {
  CHECK_THAT(error_of({.policy = "wait"}), Contains("without --mtbf HOURS, no worker is lost"));
  CHECK_THAT(error_of({.scheduler_returns = true}), Contains("without --mtbf HOURS, the scheduler is not lost"));
  CHECK_THAT(error_of({.snapshot_every = 9}), Contains("--snapshot-every 9: without --mtbf HOURS, no server is lost"));
  CHECK_THAT(error_of({.leave_percent = 10, .mtbf_hours = 1}), Contains("cannot be combined with --leave-percent"));
  CHECK_THAT(error_of({.num_epochs = 1000, .mtbf_hours = 0.0001}), Contains("smaller --num-epochs"));
}
