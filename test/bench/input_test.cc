#include "bench/input.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "dataset/synth.h"
#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/patience.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::bench;
using dtrain::test::must;

namespace {

job::Flags input_flags(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--network", "lenet", "--image-shape", "3,24,24", "--batch-size", "8"});
  const auto no_variables = [](const std::string&) { return std::optional<std::string>(); };
  return must(job::parse_flags(arguments, no_variables)).flags;
}

// Counts the images that were loaded.
class CountedImages final : public data::Dataset {
 public:
  [[nodiscard]] int64_t size() const override { return 40; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  Result<> load(int64_t, RandomStream&, std::span<float> out, std::span<float> labels) const override {
    std::ranges::fill(out, 0.0F);
    std::ranges::fill(labels, 0.0F);
    loaded_++;
    return {};
  }
  [[nodiscard]] int64_t loaded() const { return loaded_; }

 private:
  const Shape image_{1, 2, 2};
  mutable std::atomic<int64_t> loaded_ = 0;
};

}  // namespace

// With 4 batches of 8 images ready, 2 batches would need no work at all.
TEST_CASE("batches that were read ahead before the measurement do not count in it", "[bench-input]") {
  const auto images = std::make_shared<CountedImages>();
  data::Loader loader(images, {.share = {0, 40}, .batch_size = 8, .threads = 2, .prefetch = 4}, Log::silent());
  BatchConsumer consumer(loader);
  must(consumer.take(1));
  dtrain::test::await([&] { return loader.ready_batches() >= 4; });
  const int64_t before = images->loaded();
  consumer.drop_prefetched();
  must(consumer.take(2));
  CHECK(images->loaded() - before >= 16);
  must(consumer.take(2));
  consumer.drop_prefetched();  // at the end of an epoch
  must(consumer.take(5));
}

// 40 images are 5 batches, so 12 batches take two passes and a half.
TEST_CASE("the input is measured over as many passes as the batches need", "[bench-input]") {
  const test::TempDir dir;
  must(dataset::synthesize({.out = dir.path("data"), .classes = 4, .count = 40, .size = 32}, Log::silent()));
  const job::Flags flags = input_flags({"--data-dir", dir.path("data"), "--random-crop", "1", "--data-nthreads", "2"});
  const BenchInputResult result = must(bench_input(flags, {.num_batches = 12, .num_warmup_batches = 2}, Log::silent()));
  CHECK(result.images == 96);
  CHECK(result.threads == 2);
  CHECK(result.bad_records == 0);
  CHECK(result.seconds > 0);
  CHECK(result.stages.images > 0);
  CHECK(result.stages.images <= 96);
  CHECK(result.stages.decode > 0);
  CHECK(result.stages.color == 0);
  const nlohmann::json json = nlohmann::json::parse(result.json());
  CHECK(json["source"] == dir.path("data"));
  CHECK(json["images"] == 96);
  CHECK(json["images_per_s"].get<double>() == Approx(2 * json["images_per_s_per_thread"].get<double>()));
  double all = 0;
  for (const auto& [stage, ms] : json["ms_per_image"].items()) all += ms.get<double>();
  CHECK(all == Approx(1e3 * result.stages.all() / static_cast<double>(result.stages.images)));
}

// Training reads pixels, unless normalized floats are changed.
TEST_CASE("the input is measured in the form that training reads, or in the one asked for", "[bench-input]") {
  using Form = BenchInputOptions::Form;
  const test::TempDir dir;
  must(dataset::synthesize({.out = dir.path("data"), .classes = 4, .count = 16, .size = 32}, Log::silent()));
  const auto form_of = [&](std::vector<std::string> more, Form form) {
    more.insert(more.end(), {"--data-dir", dir.path("data")});
    return bench_input(input_flags(more), {.num_batches = 1, .num_warmup_batches = 0, .form = form}, Log::silent());
  };
  CHECK(nlohmann::json::parse(must(form_of({}, Form::kAuto)).json())["form"] == "pixels");
  CHECK(nlohmann::json::parse(must(form_of({}, Form::kFloats)).json())["form"] == "floats");
  CHECK(must(form_of({"--max-random-contrast", "0.1"}, Form::kAuto)).form() == std::string("floats"));
  const auto refused = form_of({"--max-random-contrast", "0.1"}, Form::kPixels);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
}

TEST_CASE("the input of synthetic batches, or of no data, is not measured", "[bench-input]") {
  const test::TempDir dir;
  const auto synthetic = bench_input(input_flags({"--benchmark", "1"}), {}, Log::silent());
  REQUIRE(!synthetic);
  CHECK(synthetic.error().code == Code::kUsage);
  const auto missing = bench_input(input_flags({"--data-dir", dir.path("none")}), {}, Log::silent());
  REQUIRE(!missing);
  CHECK(missing.error().code == Code::kNotFound);
}
