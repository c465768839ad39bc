#include "train/data_limit.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::train;
using Catch::Contains;

namespace {

// 10 s of 1000 images, of which every 10th was timed.
DataUse ten_seconds(double wait_s, const images::Stages& of_image_ms, double cpu_s) {
  images::Stages stages{.images = 100};
  stages.read = 0.1 * of_image_ms.read;
  stages.header = 0.1 * of_image_ms.header;
  stages.decode = 0.1 * of_image_ms.decode;
  stages.color = 0.1 * of_image_ms.color;
  stages.rows = 0.1 * of_image_ms.rows;
  return {.seconds = 10, .wait_s = wait_s, .images = 1000, .stages = stages, .cpu_s = cpu_s};
}

}  // namespace

TEST_CASE("data is the limit if steps wait for more than a tenth of their time", "[train]") {
  const images::Stages light{.decode = 2, .rows = 0.3};
  const DataLimit little = data_limit(ten_seconds(0.04, light, 19), {.threads = 1, .cores = 2}, 30);
  CHECK_FALSE(little.is_limit);
  CHECK(*little.decoders_busy == Approx(0.23));
  CHECK(data_limit_text(little, {.threads = 1, .cores = 2}) ==
        "data is not the limit: 0.4 % of the time was spent waiting for batches; decoders: 1 thread, busy for 23 % of "
        "the "
        "time");
  const DataLimit much = data_limit(ten_seconds(3.4, {.read = 0.2, .header = 0.1, .decode = 7, .rows = 2.5}, 15),
                                    {.threads = 1, .cores = 2}, 30);
  CHECK(much.is_limit);
  CHECK(much.stage == job::DataStage::kDecode);
  CHECK(data_limit_text(much, {.threads = 1, .cores = 2}) ==
        "data is the limit: 34 % of the time was spent waiting for batches; decoding takes 71 % of the decoders' time "
        "(7 of 9.8 ms per image; 1 thread, busy for 98 % of the time); use --data-nthreads 2");
}

TEST_CASE("nothing is said about the limit in the first 30 s of training", "[train]") {
  const DataLimit early = data_limit(ten_seconds(3.4, {.decode = 7}, 15), {.threads = 1, .cores = 2}, 29);
  CHECK_FALSE(early.is_limit);
  CHECK(data_limit_text(early, {.threads = 1, .cores = 2}) ==
        "data: 34 % of the time was spent waiting for batches; decoders: 1 thread, busy for 70 % of the time");
}

TEST_CASE("what to do about slow data follows from what is busy", "[train]") {
  const auto text = [](const DataUse& use, const Decoders& decoders) {
    return data_limit_text(data_limit(use, decoders, 30), decoders);
  };
  const images::Stages decode{.decode = 7, .rows = 2.5};
  // As many threads as the steps need for never waiting, if there are cores for them.
  CHECK_THAT(text(ten_seconds(7, {.decode = 14, .rows = 5}, 30), {.threads = 2, .cores = 16}),
             Contains("use --data-nthreads 7"));
  CHECK_THAT(text(ten_seconds(7, decode, 15), {.threads = 1, .cores = 2}), Contains("use --data-nthreads 2"));
  CHECK_THAT(text(ten_seconds(7, decode, 15), {.threads = 1, .cores = 2, .are_tuned = true}),
             Contains("; --data-nthreads auto already chooses the number of threads; pack smaller images"));
  CHECK_THAT(text(ten_seconds(3, decode, 19.5), {.threads = 1, .cores = 2}),
             Contains("all 2 cores are busy: pack smaller images"));
  CHECK_THAT(text(ten_seconds(3, {.decode = 2, .color = 7}, 9.9), {.threads = 1, .cores = 1}),
             Contains("the core is busy: leave out some of the color changes"));
  CHECK_THAT(text(ten_seconds(3, {.read = 8, .decode = 2}, 5), {.threads = 1, .cores = 2}),
             Contains("the disk or the network is the limit"));
  // More threads would be idle as well.
  CHECK_THAT(text(ten_seconds(3, {.read = 0, .decode = 2}, 12), {.threads = 1, .cores = 2}),
             Contains("--prefetch-buffer"));
}

TEST_CASE("a data set without stages limits training without a reason", "[train]") {
  const DataUse use{.seconds = 10, .wait_s = 5, .images = 1000, .stages = {}, .cpu_s = 10};
  const DataLimit limit = data_limit(use, {.threads = 2, .cores = 2}, 30);
  CHECK(limit.is_limit);
  CHECK(limit.stage == job::DataStage::kNone);
  CHECK_FALSE(limit.decoders_busy);
  CHECK(data_limit_text(limit, {.threads = 2, .cores = 2}) ==
        "data is the limit: 50 % of the time was spent waiting for batches; decoders: 2 threads");
  CHECK(stage_ms(limit.stages).empty());
  CHECK_FALSE(data_limit({}, {}, 30).is_limit);  // no step yet
}

TEST_CASE("a period is the difference of two moments", "[train]") {
  const DataUse before = ten_seconds(1, {.read = 1, .decode = 1}, 10);
  DataUse now = ten_seconds(4, {.read = 1, .decode = 1}, 10);
  now.seconds = 20, now.images = 3000, now.stages.images = 200, now.stages.decode += 0.6;
  const DataUse period = now - before;
  CHECK(period.seconds == 10);
  CHECK(period.wait_s == 3);
  CHECK(period.images == 2000);
  CHECK(period.stages.images == 100);
  const auto ms = stage_ms(period.stages);
  REQUIRE(ms.size() == 5);
  CHECK(ms[0] == std::pair<std::string, double>("read", 0));
  CHECK(ms[2].first == "decode");
  CHECK(ms[2].second == Approx(6));
  const std::vector<telemetry::Value> values = stage_values(period.stages);
  REQUIRE(values.size() == 5);
  CHECK(values[2].metric == telemetry::Metric::kDecodeMs);
  CHECK(values[2].value == Approx(6));
}
