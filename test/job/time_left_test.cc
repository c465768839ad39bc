#include "job/process/time_left.h"

#include "support/catch.h"

using namespace dtrain::job;

namespace {

TimeLeft::Time at(double seconds) {
  return TimeLeft::Time(std::chrono::duration_cast<TimeLeft::Time::duration>(std::chrono::duration<double>(seconds)));
}

JobPace pace_of(int64_t steps, double steps_per_s) {
  return {.steps = steps, .steps_of_epoch = 100, .epochs = 5, .steps_per_s = steps_per_s};
}

// A job that makes 10 steps a second and stops for 4 seconds after each epoch, with a report each half second.
template <class Check>
void run_job(TimeLeft& left, const Check& check) {
  const double end = 5 * (10 + 4);
  for (double now = 0.5; now <= end; now += 0.5) {
    const auto epoch = static_cast<int64_t>(now / 14);
    const double in_epoch = now - 14.0 * static_cast<double>(epoch);
    const int64_t steps = epoch * 100 + std::min<int64_t>(100, static_cast<int64_t>(10 * in_epoch));
    check(steps, end - now, left.update(pace_of(steps, 10), at(now)).value());
  }
}

}  // namespace

TEST_CASE("the first report with a speed tells the time left", "[job]") {
  TimeLeft left;
  CHECK_FALSE(left.update(pace_of(0, 0), at(0)));
  CHECK(left.update(pace_of(100, 8), at(1)).value() == Approx(400 / 8.0));
}

TEST_CASE("one slow report hardly changes the time left", "[job]") {
  TimeLeft left;
  int64_t steps = 0;
  double before = 0;
  for (int i = 1; i <= 40; i++) before = left.update(pace_of(steps += 5, 10), at(0.5 * i)).value();
  CHECK(before == Approx(30));
  const double after = left.update(pace_of(steps + 2, 4), at(20.5)).value();  // 2.5 times as slow
  CHECK(after > before - 0.5);
  CHECK(after < 1.1 * before);
}

TEST_CASE("a speed that stays different is believed", "[job]") {
  TimeLeft left;
  int64_t steps = 0;
  std::optional<double> now;
  const auto report = [&](double speed, double seconds) {
    now = left.update({.steps = ++steps, .steps_of_epoch = 10000, .epochs = 1, .steps_per_s = speed}, at(seconds));
  };
  for (int i = 1; i <= 600; i++) report(1, i);
  CHECK(*now == Approx(9400));
  for (int i = 1; i <= 100; i++) report(0.5, 600 + 2 * i);
  CHECK(*now == Approx(9300 * 2).epsilon(0.05));
}

// The first pause comes as a surprise; from the next step on the ends of epochs are counted in.
TEST_CASE("validation and checkpoints after epochs belong to the time left", "[job]") {
  TimeLeft left;
  std::optional<double> before;
  run_job(left, [&](int64_t steps, double truth, double now) {
    INFO("after " << steps << " steps, truth " << truth);
    if (steps <= 100) CHECK(now <= truth);
    if (steps > 100) CHECK(now == Approx(truth).margin(0.6));
    if (steps > 110) CHECK(*before - now == Approx(0.5).margin(0.3));
    before = now;
  });
}

TEST_CASE("the time left counts down while no step is made", "[job]") {
  TimeLeft left;
  CHECK(left.update(pace_of(100, 10), at(1)).value() == Approx(40));
  CHECK(left.update(pace_of(100, 10), at(4)).value() == Approx(37));
  CHECK(left.update(pace_of(100, 10), at(100)).value() == 0);
}

// A job that goes back to a checkpoint.
TEST_CASE("steps that are made again are left again", "[job]") {
  TimeLeft left;
  CHECK(left.update(pace_of(300, 10), at(1)).value() == Approx(20));
  CHECK(left.update(pace_of(200, 10), at(1.5)).value() >= 30);
}
