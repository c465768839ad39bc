#include "job/process/progress.h"

#include "support/catch.h"

using namespace dtrain::job;

TEST_CASE("the scheduler's progress line is parsed and formatted for users", "[job]") {
  const auto progress = parse_progress(
      "live step=1500 steps=4690 samples_per_s=5400 wait_data=0.02 wait_network=0.10 eta_s=80 epoch=3 epochs=10 "
      "colour=7 "
      "training=0.131/0.962 validation=0.0812/0.977");
  REQUIRE(progress);
  CHECK(format_progress(*progress) ==
        "epoch 4/10  step 1500/4690  loss 0.131  accuracy 96.2 %  5400 samples/s  ETA 1m20s  validation 97.7 %  "
        "validation "
        "loss 0.081  waiting: data 2 %, network 10 %");
  CHECK(format_progress(*parse_progress("live step=0 steps=10")) == "epoch 0/0  step 0/10");  // no speed is known yet
  CHECK(format_progress(*parse_progress("live eta_s=7260")).ends_with("ETA 2h01m"));
  CHECK(format_progress(*parse_progress("live samples_per_s=5400 wait_data=0.34 data_stage=3 eta_s=-1")) ==
        "epoch 0/0  step 0/0  5400 samples/s  waiting: data 34 % (the limit: decoding), network 0 %");
  CHECK(parse_progress("live data_stage=6")->data_stage == DataStage::kNone);
  CHECK_FALSE(parse_progress("lively step=1"));
  CHECK_FALSE(parse_progress("dtrain scheduler 127.0.0.1:9091"));
}

// A run that was stopped has not made all steps.
TEST_CASE("the progress at the end is that of the last report, without an estimate", "[job]") {
  const auto last = parse_progress(
      "live step=4600 steps=4690 samples_per_s=5400 wait_data=0 eta_s=3 epoch=9 epochs=10 validated=0.4");
  REQUIRE(last);
  CHECK(format_progress(at_end(*last)) == "epoch 10/10  step 4600/4690  5400 samples/s");
  CHECK(format_progress(*parse_progress("live epoch=10 epochs=10")) == "epoch 10/10  step 0/0");
}

// The launcher must not rely on the scheduler's output: lines may be cut, doubled or nonsense.
TEST_CASE("a malformed progress line is parsed without a failure", "[job]") {
  for (const char* line :
       {"live ", "live step", "live step= =5 =", "live step=nan eta_s=inf", "live step=1e300",
        "live worker=", "live training= validation=/", "live training=1 validation=nan/1", "live workerx=1/2/3/4/5/6",
        "live workers=-1 worker1=1/2", "live worker1=//////", "live worker1=1/nan/-1/x/9/9 workers=9e99"}) {
    INFO(line);
    const auto progress = parse_progress(line);
    REQUIRE(progress);
    CHECK(progress->step >= 0);
    CHECK_FALSE(format_progress(*progress).empty());
  }
}

TEST_CASE("the machine-readable progress line is parsed back unchanged", "[job]") {
  const Progress progress{.step = 7,
                          .steps = 90,
                          .epoch = 2,
                          .epochs = 3,
                          .samples_per_s = 5400,
                          .wait_data = 0.25,
                          .wait_network = 0.5,
                          .eta_s = 80,
                          .checkpoint_s = 1.5,
                          .data_stage = DataStage::kColor,
                          .validated = 0.5,
                          .training = Quality{0.25, 0.5},
                          .validation = Quality{0.125, 0.75},
                          .worker_count = 40,
                          .workers = {{.step = 6, .samples_per_s = 30.5, .wait_data_share = 0.25, .rank = 3},
                                      {.step = 7, .data_stage = DataStage::kDecode, .validated = 0.5, .rank = 12}}};
  const auto back = parse_progress(host_line(progress));
  REQUIRE(back);
  CHECK(host_line(*back) == host_line(progress));
  CHECK(back->step == 7);
  CHECK(back->eta_s == 80);
  CHECK(back->checkpoint_s == 1.5);
  CHECK(back->training->loss == 0.25);
  CHECK(back->validation->accuracy == 0.75);
  CHECK(back->data_stage == DataStage::kColor);
  REQUIRE(back->workers.size() == 2);
  CHECK(back->workers[1].rank == 12);
  CHECK(back->workers[1].validated == 0.5);
}

TEST_CASE("a job of several workers is shown with a bar and a line for each of them", "[job]") {
  Progress progress =
      *parse_progress("live step=120 steps=480 epoch=3 epochs=9 samples_per_s=5400 wait_network=0.1 eta_s=80");
  set_workers({{.step = 120, .samples_per_s = 1800, .wait_network_share = 0.12, .training = Quality{0.2, 0.9}},
               {.step = 121,
                .samples_per_s = 1790,
                .wait_data_share = 0.3,
                .data_stage = DataStage::kDecode,
                .training = Quality{0.4, 0.8},
                .rank = 1},
               {.step = 119, .samples_per_s = 10000, .validated = 0.25, .rank = 2}},
              progress);
  CHECK(progress.validated == 0.25);
  const dtrain::Live live = live_progress(progress, [](uint32_t rank) { return rank == 0 ? "node7" : ""; });
  CHECK(live.text ==
        "epoch 3/9  step 120/480  validating 25 %  loss 0.300  accuracy 85.0 %  5400 samples/s  ETA 1m20s  waiting: "
        "data 0 %, network 10 %");
  CHECK(live.done == 0.25);
  CHECK(live.details ==
        std::vector<std::string>{
            "worker 0      1800 samples/s  step     120  network  12 %  data 0 %  node7",
            "worker 1      1790 samples/s  step     121  network   0 %  data 30 % (the limit: decoding)",
            "worker 2     10000 samples/s  step     119  validating 25 %"});
}

TEST_CASE("of many workers the slowest ones are shown", "[job]") {
  std::vector<WorkerProgress> all;
  for (uint32_t rank = 0; rank < 100; rank++) all.push_back({.samples_per_s = 1000.0 - rank, .rank = rank});
  Progress progress;
  set_workers(all, progress);
  REQUIRE(progress.workers.size() == Progress::kWorkersMax);
  CHECK(progress.workers.front().rank == 84);
  CHECK(progress.workers.back().rank == 99);
  CHECK(live_progress(*parse_progress(host_line(progress))).details.back() == "... and 84 faster workers");
}
