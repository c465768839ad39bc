#include <limits>

#include "support/catch.h"
#include "train/pace.h"
#include "train/time_to_accuracy.h"
#include "train/times.h"

using namespace dtrain;
using namespace dtrain::train;
using dtrain::train::test::at;

// A level counts once. If a measurement reaches several levels, all of them have its time.
TEST_CASE("each accuracy level has the time at which it was first reached", "[train]") {
  AccuracyTimes times(0.1);
  CHECK(times.note(0.05, 1, 64).empty());
  CHECK(times.note(std::numeric_limits<double>::quiet_NaN(), 2, 128).empty());
  const auto first = times.note(0.3, 3, 192);  // 3 * 0.1 is more than 0.3 in doubles
  REQUIRE(first.size() == 3);
  CHECK(first[2].accuracy == Approx(0.3));
  CHECK(first[0].seconds == 3);
  CHECK(times.note(0.2, 4, 256).empty());
  CHECK(times.note(0.45, 5, 320).size() == 1);
  CHECK(times.note(1, 6, 384).size() == 6);
  CHECK(times.note(1, 7, 448).empty());
  REQUIRE(times.all().size() == 10);
  CHECK(times.all()[3].samples == 320);
  CHECK(times.all()[9].accuracy == 1);
  CHECK(AccuracyTimes(0).note(1, 1, 1).empty());
  AccuracyTimes coarse(0.4);
  CHECK(coarse.note(1, 1, 1).size() == 2);  // 0.4, 0.8
}

TEST_CASE("the pace separates waiting from working", "[train]") {
  Pace pace(10);
  CHECK_FALSE(pace.report(0, at(0)));
  double network = 0;
  for (int step = 0; step < 4; step++) {
    network += 0.02;
    pace.step(at(step * 0.1), at(step * 0.1 + 0.1), at(0.03) - at(0), network);
  }
  CHECK(pace.totals().steps == 4);
  CHECK(pace.totals().seconds == Approx(0.4));
  CHECK_FALSE(pace.report(4, at(0.4)));
  const auto report = pace.report(4, at(0.6));
  REQUIRE(report);
  CHECK(report->step == 4);
  CHECK(report->samples_per_s == Approx(100));
  CHECK(report->wait_data_share == Approx(0.3));
  CHECK(report->wait_network_share == Approx(0.2));
  pace.wait(at(1), at(1.5), network + 0.5);
  CHECK(pace.totals().seconds == Approx(0.9));
  CHECK(pace.totals().wait_network_s == Approx(0.58));
}
