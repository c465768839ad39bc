// Jobs under each consistency scheme, as real processes on this host: they learn, the events that their servers
// traced can be replayed and keep the bound, and network faults change nothing.

#include <algorithm>
#include <csignal>
#include <map>
#include <numeric>
#include <sstream>

#include "base/file.h"
#include "cluster/lenet_run.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct Scheme {
  std::string name;
  std::vector<std::string> flags;
  std::optional<uint64_t> lead_max = {};
};

std::vector<Scheme> schemes() {
  return {{"bsp", {"--kv-store", "dist_sync"}, 0},
          {"backup", {"--kv-store", "dist_sync", "--backup", "1"}},
          {"asp", {"--kv-store", "dist_async"}},
          {"ssp", {"--kv-store", "dist_ssync", "--staleness", "2"}, 2},
          {"gsp", {"--kv-store", "dist_gsync", "--groups-file", "groups"}},
          {"gsp with a bound", {"--kv-store", "dist_gsync", "--groups-file", "groups", "--group-staleness", "1"}, 1}};
}

std::vector<size_t> numbers(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Ended run_dtrain(const TempDir& dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), dtrain_program());
  return run(arguments, {.deadline_s = 120, .directory = dir.path(), .environment = {}});
}

// The largest lead in the trace: how far a worker that was allowed to begin a step was ahead of the slowest one.
uint64_t largest_lead(const std::string& trace) {
  std::istringstream lines(trace);
  std::map<std::string, std::map<uint32_t, uint64_t>> pushed;  // steps, by slice and worker
  uint64_t lead = 0;
  std::string slice, word;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    uint32_t worker = 0;
    uint64_t step = 0;
    if (line.rfind("slice ", 0) == 0) {
      words >> word >> slice;
      for (uint32_t w = 0; w < 4; w++) pushed[slice][w] = 0;
    } else if (line[0] != ' ') {
      words >> slice >> word;
      if (word != "push") continue;
      words >> worker >> word >> step;
      pushed[slice][worker] = std::max(pushed[slice][worker], step + 1);
    } else if (words >> word; word == "answer") {
      words >> worker >> word >> word >> word >> step;  // "answer W group G step S"
      for (const auto& [other, steps] : pushed[slice]) lead = std::max(lead, step > steps ? step - steps : 0);
    }
  }
  return lead;
}

}  // namespace

TEST_CASE("every scheme learns, and its servers' events can be replayed", "[schemes]") {
  const TempDir dir;
  write_mnist(dir.path("data"), numbers(800));
  must(write_file_atomic(dir.path("groups"), "#0 #1\n#2 #3\n"));
  for (const Scheme& scheme : schemes()) {
    INFO(scheme.name);
    const std::string run_dir = dir.path(scheme.name);
    const std::vector<std::string> command =
        command_line("-n 4 -s 2 --network lenet --data-dir", dir.path("data"),
                     "--threads 1 --seed 5 --lr 0.02 --momentum 0 --num-epochs 4 --batch-size 10 --run-dir", run_dir,
                     "--trace-events", dir.path("events"), scheme.flags);
    const Ended end = run_dtrain(dir, command);
    INFO(end.output);
    REQUIRE(end.code == 0);
    const std::string summary = must(read_file(run_dir + "/summary.json"));
    const std::string key = "\"validation_accuracy\": ";
    CHECK(std::stod(summary.substr(summary.find(key) + key.size())) > 0.9);
    const std::string metrics = must(read_file(run_dir + "/metrics.jsonl"));
    const bool is_in_step = scheme.name == "bsp" || scheme.name == "backup";
    CHECK(metrics.find(R"("role":"server","rank":1,"epoch":null,)") != std::string::npos);
    CHECK((metrics.find(R"("staleness_mean":1.0,"staleness_max":1.0)") != std::string::npos) == is_in_step);
    for (const char* server : {"0", "1"}) {
      const std::string path = dir.path("events.") + server;
      const std::string trace = must(read_file(path));
      const Ended replay = run_dtrain(dir, {"simulate", "--replay", path});
      CHECK(replay.code == 0);
      CHECK(replay.output.starts_with(trace));  // the output also has a line from stderr
      if (scheme.lead_max) CHECK(largest_lead(trace) <= *scheme.lead_max);
    }
  }
}

TEST_CASE("with one worker all schemes end with the weights of a single process", "[schemes]") {
  const TempDir dir;
  write_mnist(dir.path("data"), numbers(320));
  must(write_file_atomic(dir.path("groups"), "#0\n"));
  const auto train = [&](const std::vector<std::string>& flags) {
    return train_lenet(dir, "data", command_line(flags, "--batch-size 32"));
  };
  const std::vector<NamedArray> alone = train({});
  for (const Scheme& scheme : schemes()) {
    if (scheme.name == "backup") continue;  // needs more than one worker
    INFO(scheme.name);
    CHECK(same_bits(train(command_line("-n 1 -s 2", scheme.flags)), alone));
  }
}

// Worker 1, which is four times slower, begins in a group with worker 0.
TEST_CASE("regrouping joins workers of similar speed, and a job stops by its current groups", "[schemes]") {
  const TempDir dir;
  write_mnist(dir.path("data"), numbers(240));
  must(write_file_atomic(dir.path("groups"), "#0 #1\n#2\n"));
  const auto command = [&](const std::string& epochs, const std::string& run_dir) {
    return command_line(dtrain_program(), "-n 3 -s 2 --network lenet --data-dir", dir.path("data"),
                        "--threads 1 --lr 0.02 --batch-size 10 --kv-store dist_gsync --regroup-every 1 "
                        "--inject step-ms=20,step-ms=80@worker:1 --trace-events",
                        dir.path("events"), "--num-epochs", epochs, "--run-dir", run_dir);
  };
  const Ended end = run(command("3", "run"), {.deadline_s = 120, .directory = dir.path(), .environment = {}});
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK_THAT(end.output, Catch::Contains("New groups: #0 ") && Catch::Contains(", #1 ("));
  for (const char* server : {"0", "1"}) {
    const std::string path = dir.path("events.") + server;
    const Ended replay = run_dtrain(dir, {"simulate", "--replay", path});
    CHECK(replay.code == 0);
    CHECK(replay.output.starts_with(must(read_file(path))));
  }

  Process endless(command("1000", "endless"), {.directory = dir.path(), .environment = {}});
  REQUIRE(endless.wait_for_output("New groups: ", 60));
  endless.signal(SIGTERM);
  const Ended stopped = endless.wait(30);
  INFO(stopped.output);
  CHECK(stopped.code == 75);
}

// Worker 1 needs three times as long per step, so the others reach the bound and wait for it. The trace has pulls that
// were parked for it, the server's warning names it, and SIGUSR2 makes the workers print their open waits, and all
// processes a trace.
TEST_CASE("the lead of an ssp job reaches its bound, and the log names the slow worker", "[schemes]") {
  const TempDir dir;
  write_mnist(dir.path("data"), numbers(240));
  Process job(command_line(dtrain_program(), "-n 4 -s 1 --network lenet --data-dir", dir.path("data"),
                           "--threads 1 --lr 0.02 --batch-size 10 --kv-store dist_ssync --staleness 2 --ssp-warn 50ms "
                           "--inject step-ms=100,step-ms=300@worker:1 --num-epochs 2 --trace-events",
                           dir.path("events"), "--run-dir", dir.path("run")),
              {.directory = dir.path(), .environment = {}});
  const bool warned = job.wait_for_output("missing: worker 1", 60);
  job.signal(SIGUSR2);
  const bool listed = job.wait_for_output("open wait: ", 30);
  const Ended end = job.wait(120);
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(warned);
  CHECK(listed);
  CHECK(must(read_file(dir.path("run/trace.json"))).find("\"name\":\"apply\"") != std::string::npos);
  const std::string trace = must(read_file(dir.path("events")));
  CHECK(trace.find("waits for 1") != std::string::npos);
  CHECK(largest_lead(trace) == 2);
}

namespace {

// The last number before `words` in each log of a role's processes, summed over the processes.
uint64_t logged(const std::string& run_dir, const std::string& role, int processes, const std::string& words) {
  uint64_t sum = 0;
  for (int rank = 0; rank < processes; rank++) {
    const std::string log = must(read_file(run_dir + "/" + role + "-" + std::to_string(rank) + ".log"));
    const size_t end = log.rfind(" " + words);
    INFO(log);
    REQUIRE(end != std::string::npos);
    const size_t begin = log.rfind(' ', end - 1) + 1;
    sum += std::stoull(log.substr(begin, end - begin));
  }
  return sum;
}

}  // namespace

// The logs show that messages were lost and duplicated, and that servers recognized gradients that they already had.
TEST_CASE("lost, repeated and late messages do not change a bit of a BSP job", "[schemes]") {
  const TempDir dir;
  write_mnist(dir.path("data"), numbers(320));
  const auto train = [&](std::vector<std::string> flags) {
    for (const char* word : {"-n", "4", "-s", "2", "--batch-size", "8", "--deterministic", "1"})
      flags.emplace_back(word);
    return train_lenet(dir, "data", flags);
  };
  const std::vector<NamedArray> undisturbed = train({});
  const std::string run_dir = dir.path("data/run");
  CHECK(logged(run_dir, "server", 2, "repeated gradients") == 0);
  CHECK(same_bits(train({"--inject", "drop=0.1,dup=0.1,delay=0..50ms,seed=3"}), undisturbed));
  CHECK(logged(run_dir, "worker", 4, "were lost") > 20);
  CHECK(logged(run_dir, "worker", 4, "were duplicated") > 20);
  CHECK(logged(run_dir, "server", 2, "repeated gradients") > 20);
}
