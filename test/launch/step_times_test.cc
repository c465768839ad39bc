#include "launch/step_times.h"

#include "support/catch.h"

namespace dtrain::launch {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_CASE("a step that hangs does not count as long as it hangs", "[launch]") {
  StepTimes times;
  const StepTimes::Clock::time_point start;
  CHECK(times.longest(start) == seconds(0));
  times.at(0, start);
  CHECK(times.longest(start + seconds(20)) == seconds(20));  // the first step
  CHECK(times.longest(start + hours(1)) == minutes(1));
  times.at(1, start + seconds(2));
  times.at(2, start + seconds(6));
  times.at(2, start + seconds(7));  // reported again
  CHECK(times.longest(start + seconds(8)) == seconds(4));
  CHECK(times.longest(start + seconds(16)) == seconds(10));  // the step in progress
  CHECK(times.longest(start + hours(1)) == seconds(12));
  times.at(3, start + seconds(66));  // a long step that ended
  CHECK(times.longest(start + seconds(67)) == seconds(60));
}

}  // namespace dtrain::launch
