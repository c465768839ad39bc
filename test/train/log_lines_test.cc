#include "train/log_lines.h"

#include "support/catch.h"

#include "train/times.h"

#include <chrono>

using namespace dtrain;
using namespace dtrain::train;
using dtrain::train::test::at;

// The first batch starts the clock; lines come at multiples of `frequent`.
TEST_CASE("a log line shows the speed of the batches since the previous line", "[train]") {
  Speedometer speedometer(20, 128);
  std::vector<std::pair<int64_t, double>> lines;
  for (int64_t count = 0; count <= 60; count++) {
    const auto speed = speedometer.tick(count, at(100 + 0.1 * static_cast<double>(count)));
    if (speed) lines.emplace_back(count, speed->samples_per_s);
  }
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].first == 20);
  CHECK(lines[2].first == 60);
  for (const auto& [count, speed] : lines) CHECK(speed == Approx(1280));
}

TEST_CASE("a lower batch count restarts the clock", "[train]") {
  Speedometer speedometer(2, 1);
  CHECK_FALSE(speedometer.tick(0, at(0)));
  CHECK(speedometer.tick(2, at(2)));
  CHECK_FALSE(speedometer.tick(0, at(100)));
  CHECK(speedometer.tick(2, at(101))->samples_per_s == Approx(2));
}

TEST_CASE("the first log line after a resume in mid-epoch counts only the batches since the resume", "[train]") {
  Speedometer speedometer(20, 10);
  CHECK_FALSE(speedometer.tick(13, at(1)));
  CHECK_FALSE(speedometer.tick(19, at(7)));
  const std::optional<Speed> speed = speedometer.tick(20, at(8));
  REQUIRE(speed);
  CHECK(speed->batches == 7);
  CHECK(speed->samples_per_s == Approx(10));
  CHECK(speedometer.tick(40, at(28))->batches == 20);
}

TEST_CASE("a validation between two log lines does not count as time of the batches", "[train]") {
  Speedometer speedometer(20, 10);
  speedometer.leave_out(at(3) - at(0));  // before the first batch
  CHECK_FALSE(speedometer.tick(0, at(10)));
  speedometer.leave_out(at(100) - at(0));
  CHECK(speedometer.tick(20, at(120))->samples_per_s == Approx(20));
  CHECK(speedometer.tick(40, at(130))->samples_per_s == Approx(20));
}

TEST_CASE("log lines have MXNet's format", "[train]") {
  const std::vector<MetricValue> values = {{"accuracy", 0.1015625}, {"top_k_accuracy_5", 0.498}};
  const SpeedLine line{.epoch = 0, .count = 20, .batches = 20, .samples_per_s = 1234.567, .values = values};
  CHECK(speed_line(line, job::LogFormat::kNew) ==
        "Epoch[0] Batch [0-20]\tSpeed: 1234.57 samples/sec\taccuracy=0.101562\ttop_k_accuracy_5=0.498000");
  CHECK(speed_line(line, job::LogFormat::kLegacy) ==
        "Epoch[0] Batch [20]\tSpeed: 1234.57 samples/sec\taccuracy=0.101562\ttop_k_accuracy_5=0.498000");
  CHECK(metric_line(3, "Train", values[0]) == "Epoch[3] Train-accuracy=0.101562");
  CHECK(time_line(3, 12.3456) == "Epoch[3] Time cost=12.346");
  CHECK(learning_rate_line(391, 0.094) == "Update[391]: Change learning rate to 9.40000e-02");
  CHECK(reached_line("train", {.accuracy = 0.1 * 3, .seconds = 12.3456, .samples = 46080}) ==
        "Reached train-accuracy 0.3 after 12.346 s and 46080 samples");
  CHECK(saved_line("m-0001.params") == "Saved checkpoint to \"m-0001.params\"");
}
