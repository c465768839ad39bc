#include "train/step.h"

#include <cmath>
#include <limits>
#include <memory>

#include "fakes.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/finite.h"

using namespace dtrain;
using namespace dtrain::train;

namespace {

// Records what it is told.
class RecordingStore final : public train::test::SilentStore, private kvstore::DeviceDecisions {
 public:
  Result<> gradient_ready(kvstore::DeviceBucket at, uint64_t step, uint32_t samples) override {
    told.push_back(fmt::format("bucket {} step {} samples {}", at.bucket, step, samples));
    return {};
  }
  Result<> wait_for_weights(kvstore::DeviceBucket at) override {
    told.push_back(fmt::format("wait {}", at.bucket));
    if (lost) return fail(Code::kPeerLost, "server 1 is lost");
    return {};
  }
  kvstore::DeviceDecisions* device_decisions() override { return this; }
  std::vector<std::string> told;
  bool lost = false;

 private:
  void decide_on_devices() override { told.emplace_back("decide"); }
  void settle_step(uint32_t samples, bool counts) override {
    told.push_back(fmt::format("{} {}", counts ? "count" : "skip", samples));
  }
};

struct Setting {
  exec::DeviceGroup devices{std::make_unique<train::test::FakeExecutor>(), 1};
  train::test::FakeExecutor& executor = static_cast<train::test::FakeExecutor&>(devices.executor(0));
  RecordingStore store;
  graph::Graph graph = train::test::toy_network();
  std::vector<float> labels = {0};
  std::vector<float> pixels = std::vector<float>(36, 0);

  [[nodiscard]] StepParts parts(job::OnNan on_nan, uint32_t workers) {
    return {.graph = graph,
            .inputs = {{.shape = {1, 6, 6}}},
            .devices = devices,
            .bucket_begin = {0, 1},
            .store = store,
            .rank = 1,
            .workers = workers,
            .on_nan = on_nan,
            .log = Log::silent()};
  }
  Result<bool> run(job::OnNan on_nan, uint32_t workers) {
    StepRunner runner(parts(on_nan, workers));
    return train::test::run_step(runner, {Batch::of(pixels, labels), 1}, 418);
  }
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("gradients are pushed to the store bucket by bucket", "[train]") {
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    Setting s;
    const auto applied = s.run(on_nan, 2);
    REQUIRE(applied);
    CHECK(*applied);
    CHECK(s.store.told ==
          std::vector<std::string>{"wait 0", "wait 1", "bucket 1 step 418 samples 1", "bucket 0 step 418 samples 1"});
  }
}

TEST_CASE("a non-finite gradient is named in the error and not pushed", "[train]") {
  Setting s;
  s.executor.g1_[1] = std::numeric_limits<float>::infinity();
  const auto applied = s.run(job::OnNan::kFail, 2);
  REQUIRE_FALSE(applied);
  CHECK(applied.error().code == Code::kInternal);
  CHECK_THAT(applied.error().message, Catch::Contains("step 418") && Catch::Contains("rank 1") &&
                                          Catch::Contains("gradient") && Catch::Contains("'fc1_weight'"));
  CHECK(s.store.told.back() == "bucket 1 step 418 samples 1");
}

// In a job the other workers' round waits for this one, so it sends zeros that count for no sample.
TEST_CASE("a skipped step pushes zeros that count for no sample", "[train]") {
  for (const bool in_loss : {false, true}) {
    Setting s;
    (in_loss ? s.executor.probabilities_[0] : s.executor.g2_[0]) = kNan;
    const auto applied = s.run(job::OnNan::kSkip, 2);
    REQUIRE(applied);
    CHECK_FALSE(*applied);
    CHECK(s.store.told ==
          std::vector<std::string>{"wait 0", "wait 1", "bucket 1 step 418 samples 0", "bucket 0 step 418 samples 0"});
    CHECK(s.executor.g1_ == std::vector<float>{0, 0});
    CHECK(s.executor.g2_ == std::vector<float>{0, 0});
  }
}

// Each gradient is finite, but the sum over the workers might not be, on any server. Whoever sees it first leaves the
// step out for all.
TEST_CASE("a gradient that is too large for a sum over all workers counts as not finite", "[train]") {
  const float limit = std::ldexp(1.0F, 125);  // for 3 or 4 workers
  for (const float value : {limit, -limit, std::numeric_limits<float>::max()}) {
    Setting s;
    s.executor.g2_[1] = value;
    CHECK_FALSE(*s.run(job::OnNan::kSkip, 4));
    CHECK(s.store.told.back() == "bucket 0 step 418 samples 0");
    s.executor.g2_[1] = value;
    CHECK_THAT(s.run(job::OnNan::kFail, 3).error().message,
               Catch::Contains("step 418, rank 1: the gradient is not finite or not below 4.25e+37, first in layer "
                               "'fc2_weight'; train with a lower learning rate (--lr)"));
    s.executor.g2_[1] = value;
    CHECK(*s.run(job::OnNan::kFail, 1));  // there is no sum
  }
  Setting s;
  s.executor.g2_[1] = std::nextafter(limit, 0.0F);
  CHECK(*s.run(job::OnNan::kSkip, 4));
}

// The largest summands, added one after the other.
TEST_CASE("a sum of gradients below the limit is finite", "[train]") {
  CHECK(std::isinf(summand_limit(1)));
  for (const uint32_t terms : {2U, 3U, 4U, 5U, 64U, 65U, 1000U, 65536U}) {
    const float largest = std::nextafter(summand_limit(terms), 0.0F);
    float sum = 0;
    for (uint32_t i = 0; i < terms; i++) sum += largest;
    CHECK(std::isfinite(sum));
    CHECK(std::isinf(8 * static_cast<float>(terms) * largest));  // not much smaller than it must be
  }
}

TEST_CASE("the gradients of several steps are pushed as one", "[train]") {
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    Setting s;
    StepRunner runner(s.parts(on_nan, 4));
    const data::LoadedBatch batch{Batch::of(s.pixels, s.labels), 1};
    for (uint64_t update = 418; update < 420; update++) {
      s.store.told.clear();
      for (const bool ends_update : {false, false, true}) {
        s.executor.g1_ = {1, ends_update ? 16.0F : 2.0F};
        s.executor.g2_ = {0.5F, 4};
        REQUIRE(runner.launch(batch, update, ends_update));
        CHECK(must(runner.finish()));
      }
      const std::string number = std::to_string(update);
      CHECK(s.store.told == std::vector<std::string>{"wait 0", "wait 1", "wait 0", "wait 1", "wait 0", "wait 1",
                                                     "bucket 1 step " + number + " samples 3",
                                                     "bucket 0 step " + number + " samples 3"});
      CHECK(s.executor.g1_ == std::vector<float>{3, 20});
      CHECK(s.executor.g2_ == std::vector<float>{1.5F, 12});
    }
  }
}

// The update is then left out by all workers, as if each of its batches were that of a worker.
TEST_CASE("if one of several steps for an update is bad, all of them are skipped", "[train]") {
  for (const size_t bad : {0, 1, 2}) {
    Setting s;
    StepRunner runner(s.parts(job::OnNan::kSkip, 4));
    const data::LoadedBatch batch{Batch::of(s.pixels, s.labels), 1};
    for (size_t step = 0; step < 3; step++) {
      s.executor.g1_ = {1, step == bad ? kNan : 2.0F};
      s.executor.g2_ = {0.5F, 4};
      REQUIRE(runner.launch(batch, 418, step == 2));
      CHECK(must(runner.finish()) == (step < bad));
    }
    CHECK(s.store.told.size() == 8);
    CHECK(s.store.told.back() == "bucket 0 step 418 samples 0");
    CHECK(s.executor.g1_ == std::vector<float>{0, 0});
    s.executor.g1_ = {1, 2};
    REQUIRE(runner.launch(batch, 419, true));
    CHECK(must(runner.finish()));
    CHECK(s.store.told.back() == "bucket 0 step 419 samples 1");
    CHECK(s.executor.g1_ == std::vector<float>{1, 2});
  }
}

TEST_CASE("a single worker pushes nothing for a skipped step", "[train]") {
  Setting s;
  s.executor.g2_[0] = kNan;
  CHECK_FALSE(*s.run(job::OnNan::kSkip, 1));
  CHECK(s.store.told == std::vector<std::string>{"wait 0", "wait 1"});
}

// The gradients have been handed over before the devices decide; then the store learns whether the step counts.
TEST_CASE("devices decide which steps count if the parameters are in their memory", "[train]") {
  for (const bool in_loss : {false, true}) {
    Setting s;
    s.executor.put_on_device();
    s.executor.skips_ = true;
    (in_loss ? s.executor.probabilities_[0] : s.executor.g2_[0]) = kNan;
    CHECK_FALSE(*s.run(job::OnNan::kSkip, 2));
    CHECK(s.store.told == std::vector<std::string>{"decide", "wait 0", "wait 1", "bucket 1 step 418 samples 1",
                                                   "bucket 0 step 418 samples 1", "skip 1"});
    s.executor.skips_ = false;
    s.executor.probabilities_[0] = 0.5F;
    CHECK(*s.run(job::OnNan::kSkip, 2));
    CHECK(s.store.told.back() == "count 1");
  }
}

TEST_CASE("the loss scale is the one that the devices have decided", "[train]") {
  Setting s;
  s.executor.put_on_device();
  StepParts parts = s.parts(job::OnNan::kFail, 2);
  parts.loss_scale = *LossScale::parse("dynamic");
  StepRunner runner(std::move(parts));
  const auto step = [&](bool skips, const optim::LossScaleState& decided) {
    s.executor.skips_ = skips;
    s.executor.decided_scale_ = decided;
    return train::test::run_step(runner, {Batch::of(s.pixels, s.labels), 1}, 0);
  };
  CHECK_FALSE(*step(true, {2, 0}));
  CHECK(*step(false, {2, 1}));
  CHECK(s.executor.loss_scale_ == optim::LossScaleState{2, 0});
  CHECK_FALSE(*step(true, {1, 0}));
  CHECK(runner.loss_scale().kept() == optim::LossScaleState{1, 0});
  s.executor.g2_[0] = kNan;
  CHECK_THAT(step(true, {1, 0}).error().message, Catch::Contains("gradient") && Catch::Contains("not finite"));
}

TEST_CASE("non-finite weights are named in the error", "[train]") {
  Setting s;
  s.executor.w2_[0] = kNan;
  s.executor.probabilities_[0] = kNan;
  CHECK_THAT(s.run(job::OnNan::kFail, 1).error().message, Catch::Contains("'fc2_weight'"));
}

// A step that overflows is left out like one that --on-nan skip leaves out, but without a warning. A gradient that is
// not finite at a scale of 1 is the network's own fault. See docs/arithmetic.md, "Loss scaling".
TEST_CASE("a step with overflowing float16 gradients is skipped and halves the loss scale", "[train]") {
  Setting s;
  StepParts parts = s.parts(job::OnNan::kFail, 2);
  parts.loss_scale = *LossScale::parse("dynamic");
  StepRunner runner(std::move(parts));
  const auto step = [&] {
    s.store.told.clear();
    return train::test::run_step(runner, {Batch::of(s.pixels, s.labels), 1}, 0);
  };
  const std::vector<std::string> nothing = {"wait 0", "wait 1", "bucket 1 step 0 samples 0",
                                            "bucket 0 step 0 samples 0"};
  runner.loss_scale().restore({4, 0});
  for (const double scale : {4, 2}) {
    s.executor.g2_[0] = kNan;
    CHECK_FALSE(*step());
    CHECK(s.executor.loss_scale_.scale == scale);
    CHECK(s.store.told == nothing);
  }
  s.executor.g2_[0] = 1;
  CHECK(*step());
  CHECK(s.executor.loss_scale_.scale == 1);
  CHECK(s.store.told.back() == "bucket 0 step 0 samples 1");
  s.executor.g2_[0] = kNan;
  CHECK_THAT(step().error().message, Catch::Contains("gradient") && Catch::Contains("not finite"));
}

TEST_CASE("the loss scale doubles after 2000 good steps and stays between 1 and 2^24", "[train]") {
  LossScale scale = *LossScale::parse("dynamic");
  CHECK(scale.value() == 1 << 16);
  for (int step = 0; step < 1999; step++) scale.good_step();
  CHECK(scale.value() == 1 << 16);
  scale.good_step();
  CHECK(scale.value() == 1 << 17);
  for (int step = 0; step < 2000 * 20; step++) scale.good_step();
  CHECK(scale.value() == 1 << 24);
  for (int step = 0; step < 24; step++) {
    CHECK(scale.can_fall());
    scale.bad_step();
  }
  CHECK_FALSE(scale.can_fall());
  scale.bad_step();
  CHECK(scale.value() == 1);
  CHECK(LossScale::parse("none")->value() == 1);
  CHECK(LossScale::parse("128")->value() == 128);
  CHECK_FALSE(LossScale::parse("128")->is_dynamic());
}

// Gradients are sums over the batch.
TEST_CASE("the first loss scale depends on the number of images on a device", "[train]") {
  CHECK(LossScale::parse("dynamic", 1)->value() == 65536);
  CHECK(LossScale::parse("dynamic", 128)->value() == 512);
  CHECK(LossScale::parse("dynamic", 129)->value() == 256);
  CHECK(LossScale::parse("dynamic", 1'000'000)->value() == 1);
  CHECK(LossScale::parse("128", 64)->value() == 128);
  CHECK(LossScale::parse("none", 64)->value() == 1);
}

TEST_CASE("after an overflow the loss scale needs 2000 good steps again", "[train]") {
  LossScale scale = *LossScale::parse("dynamic");
  for (int step = 0; step < 1999; step++) scale.good_step();
  scale.bad_step();
  for (int step = 0; step < 1999; step++) scale.good_step();
  CHECK(scale.value() == 1 << 15);
  scale.good_step();
  CHECK(scale.value() == 1 << 16);
}

TEST_CASE("a loss scale continues from a saved state", "[train]") {
  LossScale before = *LossScale::parse("dynamic");
  for (int step = 0; step < 3; step++) before.bad_step();
  for (int step = 0; step < 1500; step++) before.good_step();
  const LossScale::State state = before.kept();
  CHECK(state == LossScale::State{before.value(), 1500});
  LossScale after = *LossScale::parse("dynamic");
  after.restore(state);
  for (int step = 0; step < 499; step++) after.good_step();
  CHECK(after.value() == before.value());
  after.good_step();
  CHECK(after.value() == 2 * before.value());

  const double first = LossScale::parse("dynamic")->value();
  LossScale unknown = *LossScale::parse("dynamic");
  unknown.restore({});
  CHECK(unknown.value() == first);
  LossScale fixed = *LossScale::parse("128");
  fixed.restore(state);
  CHECK(fixed.value() == 128);
  CHECK(fixed.kept() == LossScale::State{});
  unknown.restore({1e30, 0});
  CHECK(unknown.value() == 1 << 24);
}

TEST_CASE("a step fails if a peer is lost while it waits", "[train]") {
  Setting s;
  s.store.lost = true;
  CHECK(s.run(job::OnNan::kFail, 2).error().message == "server 1 is lost");
}

TEST_CASE("a step may be launched ahead only on devices", "[train]") {
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    Setting s;
    CHECK_FALSE(StepRunner(s.parts(on_nan, 1)).may_launch_ahead());
    s.executor.put_on_device();
    CHECK(StepRunner(s.parts(on_nan, 1)).may_launch_ahead());
  }
}

// The number of a step that was launched ahead is known when the step before it is finished.
TEST_CASE("a step launched before a skipped one was finished gets the number of that one", "[train]") {
  Setting s;
  s.executor.put_on_device();
  StepParts parts = s.parts(job::OnNan::kFail, 1);
  parts.loss_scale = *LossScale::parse("dynamic");
  parts.loss_scale.restore({2, 0});
  StepRunner runner(std::move(parts));
  const data::LoadedBatch batch{Batch::of(s.pixels, s.labels), 1};
  REQUIRE(runner.launch(batch, 418));
  REQUIRE(runner.launch(batch, 419));
  s.executor.skips_ = true;
  s.executor.decided_scale_ = {1, 0};
  CHECK_FALSE(must(runner.finish()));
  CHECK(s.store.told.back() == "skip 1");
  CHECK_THAT(runner.finish().error().message, Catch::StartsWith("step 418, rank 1: the gradient is not finite"));
}

TEST_CASE("a bad gradient is that of the step that is finished, with the layer that the devices have noted",
          "[train]") {
  Setting s;
  s.executor.put_on_device();
  StepRunner runner(s.parts(job::OnNan::kFail, 1));
  const data::LoadedBatch batch{Batch::of(s.pixels, s.labels), 1};
  REQUIRE(runner.launch(batch, 418));
  REQUIRE(runner.launch(batch, 419));
  s.executor.skips_ = true;
  s.executor.bad_gradient_ = 1;
  CHECK_THAT(runner.finish().error().message, Catch::Contains("step 418, rank 1: the gradient is not finite, first in "
                                                              "layer 'fc2_weight'"));
}
