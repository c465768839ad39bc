#include "job/process/progress.h"

#include <catch2/catch.hpp>

using namespace dtrain::job;

TEST_CASE("the scheduler's progress line is parsed and formatted for users", "[job]") {
  const auto progress = parse_progress(
      "live step=120 steps=4690 samples_per_s=5400 wait_data=0.02 wait_network=0.10 eta_s=80 epoch=3 colour=7");
  REQUIRE(progress);
  CHECK(format_progress(*progress) ==
        "epoch 3  step 120/4690  5400 samples/s  waiting: data 2 %, network 10 %  ETA 1m20s");
  CHECK(format_progress(*parse_progress("live step=0 steps=10")) == "epoch 0  step 0/10");  // no speed is known yet
  CHECK(format_progress(*parse_progress("live eta_s=7260")).ends_with("ETA 2h01m"));
  CHECK(format_progress(*parse_progress("live samples_per_s=5400 wait_data=0.34 data_stage=3 eta_s=-1")) ==
        "epoch 0  step 0/0  5400 samples/s  waiting: data 34 % (the limit: decoding), network 0 %");
  CHECK(parse_progress("live data_stage=6")->data_stage == DataStage::kNone);
  CHECK_FALSE(parse_progress("lively step=1"));
  CHECK_FALSE(parse_progress("dtrain scheduler 127.0.0.1:9091"));
}

TEST_CASE("the progress of a successful job is complete", "[job]") {
  const auto last =
      parse_progress("live step=4600 steps=4690 samples_per_s=5400 wait_data=0 eta_s=3 epoch=9 epochs=10");
  REQUIRE(last);
  CHECK(format_progress(completed(*last)) ==
        "epoch 10  step 4690/4690  5400 samples/s  waiting: data 0 %, network 0 %");
}

// The launcher must not rely on the scheduler's output: lines may be cut, doubled or nonsense.
TEST_CASE("a malformed progress line is parsed without a failure", "[job]") {
  for (const char* line : {"live ", "live step", "live step= =5 =", "live step=nan eta_s=inf", "live step=1e300"}) {
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
                          .data_stage = DataStage::kColor};
  const auto back = parse_progress(machine_line(progress));
  REQUIRE(back);
  CHECK(machine_line(*back) == machine_line(progress));
  CHECK(back->step == 7);
  CHECK(back->eta_s == 80);
  CHECK(back->checkpoint_s == 1.5);
  CHECK(back->data_stage == DataStage::kColor);
}
