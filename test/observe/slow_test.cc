#include "observe/slow.h"

#include <fmt/core.h>

#include "support/catch.h"

#include <nlohmann/json.hpp>

using namespace dtrain;
using namespace dtrain::observe;

namespace {

WorkerPeriod worker(uint32_t rank, double data_ms, double compute_ms, double wait_ms) {
  WorkerPeriod period{.rank = rank, .host = fmt::format("node{}", rank), .steps = 100};
  period.data_wait_s = data_ms / 1e3;
  period.compute_s = compute_ms / 1e3;
  period.pull_wait_s = wait_ms / 1e3;
  period.step_s = (data_ms + compute_ms + wait_ms) / 1e3;
  period.decode_threads = 4;
  period.decode_ms = 3;
  period.read_bytes_per_s = 12e6;
  period.cores_busy = 1.9;
  period.sent_bytes = 8e6;
  return period;
}

JobPeriod job(std::vector<WorkerPeriod> workers) {
  return {.seconds = 30, .workers = std::move(workers), .servers = {}};
}

telemetry::Snapshot snapshot(double steps, double data_wait, double forward) {
  telemetry::Registry registry;
  registry.histogram(telemetry::Metric::kStepSeconds)
      .observe((data_wait + forward) / steps, static_cast<uint64_t>(steps));
  registry.set(telemetry::Metric::kPhaseSeconds, data_wait, "data_wait");
  registry.set(telemetry::Metric::kPhaseSeconds, forward, "forward");
  registry.set(telemetry::Metric::kCoreWaitSeconds, forward / 2);
  for (const auto stage : {telemetry::Metric::kHeaderMs, telemetry::Metric::kDecodeMs, telemetry::Metric::kColorMs,
                           telemetry::Metric::kRowsMs}) {
    registry.set(stage, forward);
  }
  return registry.snapshot();
}

}  // namespace

TEST_CASE("a worker that waits for its disk is named with its numbers", "[observe]") {
  std::vector<WorkerPeriod> workers = {worker(0, 1, 99, 210), worker(1, 2, 98, 210), worker(3, 190, 120, 0)};
  const auto found = find_slow(job(workers));
  REQUIRE(found.size() == 1);
  CHECK(found[0].who == "worker 3");
  CHECK(found[0].cause == Cause::kData);
  CHECK(found[0].sentence ==
        "worker 3 (node3) takes 310 ms per step, other workers 100: its data wait is 190 ms (4 decode threads; disk 12 "
        "MB/s)");
  const auto json = nlohmann::json::parse(to_json(found[0]))["slow"];
  CHECK(json["process"] == "worker 3");
  CHECK(json["host"] == "node3");
  CHECK(json["cause"] == "data");
  CHECK(json["step_s"] == Approx(0.31));
  CHECK(json["others_step_s"] == Approx(0.1));
  CHECK(json["data_wait_s"] == Approx(0.19));
  CHECK(json["text"] == found[0].sentence);
}

TEST_CASE("a worker that waits for its decoders is named with what an image costs them", "[observe]") {
  std::vector<WorkerPeriod> workers = {worker(0, 1, 99, 190), worker(1, 191, 99, 0)};
  workers[1].decode_threads = 1;
  workers[1].decode_ms = 12;
  const auto found = find_slow(job(workers));
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == Cause::kData);
  CHECK_THAT(found[0].sentence, Catch::EndsWith("its data wait is 191 ms (1 decode thread; decoding an image takes 12 "
                                                "ms, on other workers 3.0; disk 12 MB/s)"));
  for (WorkerPeriod& worker : workers) worker.decode_ms = 0;  // not known
  CHECK_THAT(find_slow(job(workers)).front().sentence, Catch::EndsWith("(1 decode thread; disk 12 MB/s)"));
}

// Its threads are late in all phases, most of all in the one that is longest anyway.
TEST_CASE("a worker without a core to run on lacks processor time, whatever it is late with", "[observe]") {
  for (double WorkerPeriod::*phase : {&WorkerPeriod::data_wait_s, &WorkerPeriod::compute_s, &WorkerPeriod::push_s}) {
    std::vector<WorkerPeriod> workers = {worker(0, 1, 99, 200), worker(1, 1, 99, 200), worker(2, 1, 99, 0)};
    workers[2].*phase += 0.2;
    workers[2].step_s = 0.3;
    workers[2].cores_busy = 0.1;
    for (WorkerPeriod& worker : workers) worker.cores_missing = 0.2;
    CHECK_THAT(find_slow(job(workers)).front().sentence,
               !Catch::Contains("processor time"));  // it is as with the others
    workers[2].cores_missing = 0.9;
    const auto found = find_slow(job(workers));
    REQUIRE(found.size() == 1);
    CHECK(found[0].cause == Cause::kCompute);
    CHECK(found[0].sentence ==
          "worker 2 (node2) takes 300 ms per step, other workers 100: it lacks processor time (0.1 cores are busy and "
          "0.9 threads wait for a core; other workers: 1.9 and 0.2)");
  }
}

TEST_CASE("a worker that is long at sending its gradients has a slow network", "[observe]") {
  std::vector<WorkerPeriod> workers = {worker(0, 1, 99, 200), worker(1, 1, 99, 200), worker(2, 1, 99, 0)};
  for (WorkerPeriod& worker : workers) worker.push_s = 0.002;
  workers[2].push_s = 0.2;
  const auto found = find_slow(job(workers));
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == Cause::kNetwork);
  CHECK(found[0].sentence ==
        "worker 2 (node2) takes 300 ms per step, other workers 102: sending its gradients takes 200 ms, other workers "
        "need 2.0: its network is slow (8.0 MB per step, about 40 MB/s)");
}

TEST_CASE("a worker that computes slowly is named, and those that wait for it are not", "[observe]") {
  const auto found = find_slow(job({worker(0, 1, 300, 0), worker(1, 1, 99, 200), worker(2, 1, 101, 200)}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == Cause::kCompute);
  CHECK(found[0].sentence ==
        "worker 0 (node0) takes 301 ms per step, other workers 101: it computes for 300 ms, other workers for 100 (1.9 "
        "cores are busy; other workers: 1.9)");
}

TEST_CASE("a worker whose gradients are late although it works as fast has a slow network", "[observe]") {
  std::vector<WorkerPeriod> workers = {worker(0, 1, 99, 200), worker(1, 1, 99, 200), worker(2, 1, 99, 200)};
  workers[1].lateness_s = 0.16;
  const auto found = find_slow(job(workers));
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == Cause::kNetwork);
  CHECK(found[0].sentence ==
        "worker 1 (node1) works 100 ms per step, other workers 100, but its gradients arrive 160 ms after theirs: its "
        "network is slow (8.0 MB per step, about 50 MB/s)");
  workers[1].compute_s += 0.16;  // which explains it
  CHECK(find_slow(job(workers)).front().cause == Cause::kCompute);
}

TEST_CASE("like workers, small differences, and a lone worker, are not called slow", "[observe]") {
  CHECK(find_slow(job({worker(0, 1, 99, 5), worker(1, 2, 110, 0)})).empty());
  CHECK(find_slow(job({worker(0, 0, 2, 5), worker(1, 0, 6, 0)})).empty());
  CHECK(find_slow(job({worker(0, 0, 10, 290), worker(1, 0, 30, 270)})).empty());  // both wait for something else
  CHECK(find_slow(job({worker(0, 100, 99, 5)})).empty());
  CHECK(find_slow(job({})).empty());
}

TEST_CASE("a server that is busier than the others is named", "[observe]") {
  JobPeriod period = job({});
  period.servers = {{.rank = 0, .host = "", .busy = 0.4, .updates = 100},
                    {.rank = 1, .host = "node9", .busy = 0.96, .updates = 90}};
  const auto found = find_slow(period);
  REQUIRE(found.size() == 1);
  CHECK(found[0].sentence ==
        "server 1 (node9) keeps 1.0 threads busy, other servers 0.4: the workers wait for its weights (90 updates per "
        "second)");
}

TEST_CASE("the advice is about what takes the time", "[observe]") {
  const JobForm form{.servers = 2, .waits_for_slow = true, .run_dir = "runs/a"};
  CHECK(advice(job({worker(0, 1, 99, 5), worker(1, 1, 99, 5)}), form).empty());
  CHECK_THAT(advice(job({worker(0, 1, 40, 60), worker(1, 1, 99, 1)}), form),
             Catch::Contains("dtrain plan --from-log runs/a"));
  // In ASP nobody waits for the slow ones, and where sending takes the time they are not what is waited for.
  CHECK_THAT(advice(job({worker(0, 1, 40, 60), worker(1, 1, 99, 1)}), {.servers = 2, .run_dir = "runs/a"}),
             Catch::Contains("--batch-size"));
  JobPeriod sending = job({worker(0, 1, 40, 10), worker(1, 1, 99, 10)});
  for (WorkerPeriod& one : sending.workers) one.push_s = 0.1;
  CHECK_THAT(advice(sending, form), Catch::Contains("--batch-size"));
  JobPeriod busy = job({worker(0, 1, 50, 50), worker(1, 1, 50, 50)});
  CHECK_THAT(advice(busy, form), Catch::Contains("--batch-size") && Catch::Contains("network between the hosts"));
  for (WorkerPeriod& one : busy.workers) one.host = "node0";
  CHECK(advice(busy, form) ==
        "what would help most: a larger --batch-size, so that each step computes longer for the same amount of "
        "communication");
  busy.workers[1].cores_missing = 1.5;
  CHECK(advice(busy, form) ==
        "what would help most: fewer processes or threads on node0, because 1.5 threads of worker 1 wait for a core");
  busy.seconds = 29;
  CHECK(advice(busy, form).empty());
  busy.seconds = 30;
  busy.servers = {{.rank = 0, .host = "", .busy = 0.9, .updates = 1}};
  CHECK_THAT(advice(busy, form), Catch::Contains("-s 4"));
  CHECK(time_shares_text(time_shares(busy)) ==
        "of the workers' time, computing took 50 %, waiting for data 1 %, sending gradients 0 %, waiting for weights "
        "50 %");
}

TEST_CASE("the advice about data is about what delays them", "[observe]") {
  JobForm form{.servers = 2, .waits_for_slow = true, .run_dir = ""};
  const auto advice_for = [&](WorkerPeriod slowest) {
    return advice(job({worker(0, 40, 99, 15), std::move(slowest)}), form);
  };
  WorkerPeriod period = worker(1, 50, 99, 1);  // a third of the step, so 4 threads are too few
  CHECK(advice_for(period) ==
        "what would help most: more decode threads (--data-nthreads 6), because 4 threads need 3 ms per image");
  form.decoders_are_tuned = true;
  CHECK_THAT(advice_for(period), Catch::Contains("--data-nthreads auto found no faster number of threads than 4"));
  form.decoders_are_tuned = false;
  period.cores_missing = 1.5;
  CHECK_THAT(advice_for(period),
             Catch::Contains("smaller images (dtrain im2rec --resize)") && Catch::Contains("1.5 threads wait for one"));
  period.read_ms = 20;
  CHECK_THAT(advice_for(period), Catch::Contains("smaller images (dtrain im2rec --resize), because reading an image "
                                                 "takes 20 ms and decoding it 3 ms (disk: 12 MB/s)"));
  period.read_ms = 0;
  period.decode_ms = 0.042;  // small images
  CHECK_THAT(advice_for(period), Catch::Contains("decoding takes 0.042 ms per image"));
  period.decode_ms = 0;  // rows of numbers
  CHECK(advice_for(period).empty());
  period.read_ms = period.decode_ms = 0.001;  // images in memory
  CHECK(advice_for(period).empty());
}

TEST_CASE("a run's conclusion has its shares, and nulls where there is nothing to say", "[observe]") {
  const auto said = nlohmann::json::parse(to_json(
      conclude(job({worker(0, 1, 40, 60), worker(1, 1, 99, 1)}), {.waits_for_slow = true, .run_dir = "runs/a"})));
  CHECK(said["time_shares"]["compute"] == Approx(139.0 / 202));
  CHECK_THAT(said["advice"].get<std::string>(), Catch::Contains("dtrain plan --from-log runs/a"));
  const auto nothing = nlohmann::json::parse(to_json(conclude(job({}), {})));
  CHECK(nothing["time_shares"].is_null());
  CHECK(nothing["advice"].is_null());
}

TEST_CASE("a period is the difference of two snapshots", "[observe]") {
  const std::vector<Source> before = {{"worker", 1, "n1", snapshot(10, 1, 2)}};
  const std::vector<Source> now = {{"worker", 1, "n1", snapshot(30, 5, 6)}, {"worker", 2, "n2", snapshot(20, 2, 4)}};
  const JobPeriod period = period_between(before, now, 4);
  REQUIRE(period.workers.size() == 2);
  CHECK(period.workers[0].steps == 20);
  CHECK(period.workers[0].data_wait_s == Approx(0.2));
  CHECK(period.workers[0].compute_s == Approx(0.2));
  CHECK(period.workers[0].cores_missing == Approx(0.5));
  CHECK(period.workers[0].core_wait_s() == Approx(0.2));
  CHECK(period.workers[0].decode_ms == 24);
  CHECK(period.workers[1].data_wait_s == Approx(0.1));
  CHECK(period_between(now, now, 4).workers.empty());
}

// Of worker 0 the second of three servers waits longest, of worker 1 the first.
TEST_CASE("a worker is as late as at the server where it is latest", "[observe]") {
  using telemetry::Metric;
  const auto server = [](uint32_t rank, double late_0, double late_1) {
    telemetry::Registry registry;
    for (const char* peer : {"worker 0", "worker 1"}) registry.set(Metric::kTimedGradients, 10, peer);
    registry.set(Metric::kLatenessSeconds, late_0, "worker 0");
    registry.set(Metric::kLatenessSeconds, late_1, "worker 1");
    return Source{"server", rank, "", registry.snapshot()};
  };
  const std::vector<Source> now = {{"worker", 0, "", snapshot(10, 1, 2)},
                                   {"worker", 1, "", snapshot(10, 1, 2)},
                                   server(0, 1, 4),
                                   server(1, 3, 2),
                                   server(2, 2, 1)};
  const JobPeriod period = period_between({}, now, 4);
  REQUIRE(period.workers.size() == 2);
  CHECK(period.workers[0].lateness_s == Approx(0.3));
  CHECK(period.workers[1].lateness_s == Approx(0.4));
}

TEST_CASE("slow processes are said once", "[observe]") {
  SlowWatch watch;
  const auto at = [](double i) {
    return std::vector<Source>{{"worker", 0, "", snapshot(20 * i, 0.1 * i, 2 * i)},
                               {"worker", 1, "", snapshot(20 * i, 4 * i, 2 * i)}};
  };
  CHECK(watch.update(at(1), 0).empty());
  CHECK(watch.update(at(2), 5).empty());  // too soon
  const std::vector<Slow> found = watch.update(at(3), 11);
  REQUIRE(found.size() == 1);
  CHECK(found[0].who == "worker 1");
  CHECK(watch.update(at(5), 22).empty());
}
