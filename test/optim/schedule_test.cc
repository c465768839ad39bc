#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "support/catch.h"

using namespace dtrain::optim;

// Factor 0.94 and base rate 0.1, with 390 updates per epoch, given by --lr-factor alone (every epoch).
TEST_CASE("a factor alone takes effect after every epoch", "[optim]") {
  const ScheduleSpec spec{.base = 0.1, .factor = 0.94, .every_epochs = 1};
  for (int update = 1; update <= 390; update++) REQUIRE(learning_rate(spec, update / 390.0) == 0.1);
  for (int update = 391; update <= 780; update++) REQUIRE(learning_rate(spec, update / 390.0) == Approx(0.094));
  CHECK(learning_rate(spec, 781 / 390.0) == Approx(0.08836));
}

// The steps of a cifar10 preset.
TEST_CASE("a step at an epoch applies from the first update after that epoch", "[optim]") {
  const ScheduleSpec spec{.base = 0.05, .factor = 0.1, .step_epochs = {200, 250}};
  CHECK(learning_rate(spec, 1 / 391.0) == 0.05);
  CHECK(learning_rate(spec, 78200 / 391.0) == 0.05);
  CHECK(learning_rate(spec, 78201 / 391.0) == Approx(0.005));
  CHECK(learning_rate(spec, 97750 / 391.0) == Approx(0.005));
  CHECK(learning_rate(spec, 97751 / 391.0) == Approx(0.0005));
}

// An interval of 0.5 epochs, and one of 0.1, which is not a binary fraction and must not drop the rate an update too
// early.
TEST_CASE("intervals may be fractions of an epoch", "[optim]") {
  const ScheduleSpec half{.base = 1, .factor = 0.5, .every_epochs = 0.5};
  CHECK(learning_rate(half, 58 / 116.0) == 1);
  CHECK(learning_rate(half, 59 / 116.0) == 0.5);
  CHECK(learning_rate(half, 116 / 116.0) == 0.5);
  CHECK(learning_rate(half, 117 / 116.0) == 0.25);

  const ScheduleSpec tenth{.base = 1, .factor = 0.5, .every_epochs = 0.1};
  for (int update = 1; update <= 1000; update++) {
    INFO("update " << update);
    REQUIRE(learning_rate(tenth, update / 100.0) == Approx(std::max(1e-8, std::pow(0.5, (update - 1) / 10))));
  }
}

TEST_CASE("a factor of 1 or more keeps the rate", "[optim]") {
  CHECK(learning_rate({.base = 0.1, .factor = 1, .every_epochs = 1}, 50) == 0.1);
  CHECK(learning_rate({.base = 0.1, .factor = 2, .step_epochs = {1, 2}}, 50) == 0.1);
}

TEST_CASE("before the first update the base rate applies", "[optim]") {
  CHECK(learning_rate({.base = 0.1, .factor = 0.5, .every_epochs = 1}, 0) == 0.1);
}

// As in MXNet's FactorScheduler. MXNet's MultiFactorScheduler has no floor.
TEST_CASE("a factor for every interval stops at 1e-8, steps at given epochs do not", "[optim]") {
  CHECK(learning_rate({.base = 0.1, .factor = 0.1, .every_epochs = 1}, 7) == Approx(1e-7));
  CHECK(learning_rate({.base = 0.1, .factor = 0.1, .every_epochs = 1}, 9) == 1e-8);
  CHECK(learning_rate({.base = 0.1, .factor = 0.1, .every_epochs = 1}, 5000) == 1e-8);
  CHECK(learning_rate({.base = 1e-9, .factor = 0.1, .every_epochs = 1}, 3) == 1e-9);
  CHECK(learning_rate({.base = 1e-6, .factor = 0.1, .step_epochs = {1, 2, 3}}, 4) == Approx(1e-9));
}

// 1000 updates in 10 epochs.
TEST_CASE("a polynomial falls to 0 at the last epoch", "[optim]") {
  ScheduleSpec spec{.base = 0.1, .kind = ScheduleSpec::Kind::kPoly, .power = 2, .end_epochs = 10};
  CHECK(learning_rate(spec, 1 / 100.0) == Approx(0.0998001));
  CHECK(learning_rate(spec, 250 / 100.0) == Approx(0.05625));
  CHECK(learning_rate(spec, 500 / 100.0) == Approx(0.025));
  CHECK(learning_rate(spec, 1000 / 100.0) == 0);
  CHECK(learning_rate(spec, 11) == 0);
  spec.power = 1;
  CHECK(learning_rate(spec, 2.5) == Approx(0.075));
  spec.power = 2;
  spec.warmup_epochs = 2;  // the polynomial begins where the warm-up ends
  CHECK(learning_rate(spec, 2) == Approx(0.1));
  CHECK(learning_rate(spec, 6) == Approx(0.025));
}

TEST_CASE("a cosine with warm-up rises to the rate and falls to 0", "[optim]") {
  const ScheduleSpec spec{
      .base = 0.1, .kind = ScheduleSpec::Kind::kCosine, .end_epochs = 10, .warmup_epochs = 1, .warmup_begin = 0};
  CHECK(learning_rate(spec, 50 / 100.0) == Approx(0.05));
  CHECK(learning_rate(spec, 100 / 100.0) == Approx(0.1));
  CHECK(learning_rate(spec, 550 / 100.0) == Approx(0.05));
  CHECK(learning_rate(spec, 1000 / 100.0) == Approx(0).margin(1e-12));
}

// Epochs of a factor count from the beginning of the job, not from the end of the warm-up.
TEST_CASE("a warm-up comes before any schedule", "[optim]") {
  const ScheduleSpec spec{.base = 0.1, .factor = 0.1, .step_epochs = {3}, .warmup_epochs = 2, .warmup_begin = 0.02};
  CHECK(learning_rate(spec, 0) == 0.02);
  CHECK(learning_rate(spec, 1) == Approx(0.06));
  CHECK(learning_rate(spec, 2) == 0.1);
  CHECK(learning_rate(spec, 3) == 0.1);
  CHECK(learning_rate(spec, 3.5) == Approx(0.01));
}

// The factors of MXNet's LBSGD._get_lbmult, with 100 updates in an epoch and a batch_scale of 5.
TEST_CASE("the rate of a large batch rises from that of one update", "[optim]") {
  using Rise = ScheduleSpec::LargeBatch::Rise;
  ScheduleSpec spec{.base = 0.1, .factor = 0.1, .step_epochs = {6}, .large_batch = {.scale = 5, .warmup_epochs = 4}};
  const auto rate = [&](Rise rise, double epochs) {
    spec.large_batch.rise = rise;
    return learning_rate(spec, epochs);
  };
  CHECK(rate(Rise::kLinear, 1 / 100.0) == Approx(0.1 * 1.01));
  CHECK(rate(Rise::kLinear, 1) == Approx(0.1 * 2));
  CHECK(rate(Rise::kSquare, 1) == Approx(0.1 * 1.25));
  CHECK(rate(Rise::kSquareRoot, 1) == Approx(0.1 * 3));
  CHECK(rate(Rise::kAtOnce, 3.99) == Approx(0.1));
  for (const Rise rise : {Rise::kLinear, Rise::kSquare, Rise::kSquareRoot, Rise::kAtOnce}) {
    CHECK(rate(rise, 4) == Approx(0.5));
    CHECK(rate(rise, 7) == Approx(0.05));
  }
  CHECK(rising_epochs(spec) == 4);
  spec.large_batch.scale = 1;
  CHECK(rising_epochs(spec) == 0);
}
