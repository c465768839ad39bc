#include "train/metrics.h"

#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::train;

namespace {

// The probabilities [4, 3] and labels of the example whose metrics are checked below.
const std::vector<float> kProbabilities = {.1F, .6F, .3F, .5F, .2F, .3F, .2F, .2F, .6F, .3F, .45F, .25F};
const std::vector<float> kLabels = {1, 1, 2, 0};

// The results of a network, by head.
struct Results {
  std::vector<std::span<const float>> heads;
  [[nodiscard]] std::span<const float> result(size_t head) const { return heads[head]; }
};

Result<> add(Metrics& metrics, std::span<const float> probabilities, std::span<const float> labels, int64_t count) {
  Results results{{probabilities}};
  return metrics.add(results, labels, count);
}

double value_of(const std::vector<MetricValue>& values, const std::string& name) {
  for (const MetricValue& value : values) {
    if (value.name == name) return value.value;
  }
  FAIL("no metric " << name);
  return 0;
}

}  // namespace

TEST_CASE("the example in the documentation gives the documented metrics", "[train]") {
  Metrics metrics = *Metrics::create({.top_k = {2}, .losses = {"ce", "nll"}});
  REQUIRE(add(metrics, kProbabilities, kLabels, 4));
  const std::vector<MetricValue> values = metrics.epoch();
  REQUIRE(values.size() == 4);
  CHECK(values[0].name == "accuracy");
  CHECK(values[0].value == 0.5);
  CHECK(values[1].name == "top_k_accuracy_2");
  CHECK(values[1].value == 0.75);
  CHECK(values[2].name == "cross-entropy");
  CHECK(values[2].value == Approx(0.958765).margin(1e-6));
  CHECK(values[3].name == "nll-loss");
  CHECK(values[3].value == values[2].value);
}

TEST_CASE("the lower class ranks first among equal probabilities", "[train]") {
  Metrics metrics = *Metrics::create({.top_k = {2}});
  const std::vector<float> flat = {.25F, .25F, .25F, .25F};
  for (const auto& [label, accuracy, top_2] : {std::tuple{0.0F, 1.0, 1.0}, {1.0F, 0.0, 1.0}, {2.0F, 0.0, 0.0}}) {
    metrics.start_epoch();
    REQUIRE(add(metrics, flat, std::vector{label}, 1));
    CHECK(metrics.epoch_accuracy() == accuracy);
    CHECK(value_of(metrics.epoch(), "top_k_accuracy_2") == top_2);
  }
}

TEST_CASE("a top-k metric with k above the number of classes counts all classes", "[train]") {
  Metrics metrics = *Metrics::create({.top_k = {5}});
  REQUIRE(add(metrics, kProbabilities, kLabels, 4));
  CHECK(value_of(metrics.epoch(), "top_k_accuracy_5") == 1);
}

TEST_CASE("padding rows are not counted", "[train]") {
  Metrics metrics;
  REQUIRE(add(metrics, kProbabilities, kLabels, 1));
  CHECK(metrics.sums()[0] == 1);
  CHECK(metrics.epoch_accuracy() == 1);
}

TEST_CASE("the loss of a certain and right prediction is 0, without a sign", "[train]") {
  Metrics metrics;
  REQUIRE(add(metrics, std::vector{1.0F, 0.0F, 0.0F}, std::vector{0.0F}, 1));
  CHECK(fmt::format("{:.6f}", metrics.epoch_cross_entropy()) == "0.000000");
}

TEST_CASE("a NaN probability counts as a wrong prediction", "[train]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Metrics metrics;
  REQUIRE(add(metrics, std::vector{nan, nan, nan}, std::vector{0.0F}, 1));
  CHECK(metrics.epoch_accuracy() == 0);
  CHECK(std::isnan(metrics.epoch_cross_entropy()));
}

TEST_CASE("a label out of range is an error and leaves the metrics unchanged", "[train]") {
  for (const float label : {3.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    Metrics metrics;
    std::vector<float> labels = kLabels;
    labels[2] = label;
    const Result<> added = add(metrics, kProbabilities, labels, 4);
    REQUIRE_FALSE(added);
    CHECK(added.error().code == Code::kData);
    CHECK(metrics.sums()[0] == 0);
  }
}

TEST_CASE("a new window resets the metrics of the window but not of the epoch", "[train]") {
  Metrics metrics;
  REQUIRE(add(metrics, kProbabilities, kLabels, 4));
  metrics.start_window();
  CHECK(std::isnan(metrics.window_accuracy()));
  REQUIRE(add(metrics, std::vector{0.9F, 0.1F}, std::vector{0.0F}, 1));
  CHECK(metrics.window_accuracy() == 1);
  CHECK(metrics.epoch_accuracy() == 3.0 / 5);
  metrics.start_epoch();
  CHECK(std::isnan(metrics.epoch_accuracy()));
}

TEST_CASE("the sums of several workers are added", "[train]") {
  Metrics whole;
  Metrics first;
  Metrics second;
  REQUIRE(add(whole, kProbabilities, kLabels, 4));
  REQUIRE(add(first, std::span(kProbabilities).first(3), std::span(kLabels).first(1), 1));
  REQUIRE(add(second, std::span(kProbabilities).subspan(3), std::span(kLabels).subspan(1), 3));
  std::vector<double> sums = first.sums();
  for (size_t i = 0; i < sums.size(); i++) sums[i] += second.sums()[i];
  Metrics total;
  REQUIRE(total.set_sums(sums));
  CHECK(total.epoch_accuracy() == whole.epoch_accuracy());
  CHECK(total.epoch_cross_entropy() == Approx(whole.epoch_cross_entropy()));
  CHECK(total.set_sums(std::vector<double>(2)).error().code == Code::kData);
}

// Two results of three and two classes, whose labels are the second and the first of each example.
TEST_CASE("a network with several results has the mean over them and the metrics of each", "[train]") {
  Metrics metrics = *Metrics::create({.losses = {"ce"}, .heads = {{"digit", 1}, {"parity", 0}}, .labels = 2});
  const std::vector<float> parity = {.9F, .1F, .2F, .8F, .7F, .3F, .6F, .4F};
  Results results{{kProbabilities, parity}};
  const std::vector<float> labels = {0, 1, 1, 1, 1, 2, 0, 0};
  REQUIRE(metrics.add(results, labels, 4));
  CHECK(metrics.sums()[0] == 4);
  CHECK(metrics.epoch_accuracy() == (0.5 + 0.75) / 2);
  CHECK(value_of(metrics.epoch(), "accuracy_digit") == 0.5);
  CHECK(value_of(metrics.epoch(), "accuracy_parity") == 0.75);
  const double digit = 0.958765, of_parity = -(std::log(.9) + std::log(.8) + std::log(.3) + std::log(.6)) / 4;
  CHECK(value_of(metrics.epoch(), "cross-entropy_digit") == Approx(digit).margin(1e-6));
  CHECK(value_of(metrics.epoch(), "cross-entropy") == Approx((digit + of_parity) / 2).margin(1e-6));
  CHECK(metrics.chance_cross_entropy() == Approx((std::log(3) + std::log(2)) / 2));
  const std::vector<float> wrong = {2, 1, 1, 1, 1, 2, 0, 0};
  CHECK_THAT(metrics.add(results, wrong, 4).error().message, Catch::Contains("label 2 in row 0"));
}

TEST_CASE("unknown metrics are refused", "[train]") {
  CHECK(Metrics::create({.top_k = {1}}).error().code == Code::kUsage);
  CHECK_THAT(Metrics::create({.losses = {"mse"}}).error().message,
             Catch::Contains("mse") && Catch::Contains("ce or nll"));
}
