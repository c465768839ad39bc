// The small data set that dtrain makes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "data/loading/open.h"
#include "dataset/synth.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::dataset;
using dtrain::test::must;

namespace {

data::DataSets open_directory(const std::string& path, float scale = 1.0f) {
  data::DataOptions options;
  options.data_dir = path;
  options.scale = scale;
  return must(data::open_dataset(options, Log::silent()));
}

struct Examples {
  size_t width;
  std::vector<float> data, labels;

  explicit Examples(const data::Dataset& set) : width(static_cast<size_t>(element_count(set.image()))) {
    RandomStream unused(0, Use::kTest);
    data.resize(width * static_cast<size_t>(set.size()));
    for (int64_t i = 0; i < set.size(); i++) {
      must(set.load(i, unused, std::span(data).subspan(static_cast<size_t>(i) * width, width),
                    {&labels.emplace_back(), 1}));
    }
  }
  [[nodiscard]] std::span<const float> row(size_t i) const { return std::span(data).subspan(i * width, width); }
};

// Multinomial logistic regression, trained by plain gradient descent on single examples.
class LinearClassifier {
 public:
  LinearClassifier(size_t classes, size_t width) : width_(width), weights_(classes * width), bias_(classes) {}

  void train(const Examples& examples, float rate, RandomStream& random) {
    for (const int64_t i : permutation(static_cast<int64_t>(examples.labels.size()), random)) {
      const auto x = examples.row(static_cast<size_t>(i));
      std::vector<float> p = scores(x);
      const float largest = *std::max_element(p.begin(), p.end());
      for (float& v : p) v = std::exp(v - largest);
      const float sum = std::accumulate(p.begin(), p.end(), 0.0f);
      for (size_t k = 0; k < p.size(); k++) {
        const float step =
            rate * (p[k] / sum - (static_cast<float>(k) == examples.labels[static_cast<size_t>(i)] ? 1.0f : 0.0f));
        bias_[k] -= step;
        for (size_t j = 0; j < width_; j++) weights_[k * width_ + j] -= step * x[j];
      }
    }
  }
  [[nodiscard]] double accuracy(const Examples& examples) const {
    double hits = 0;
    for (size_t i = 0; i < examples.labels.size(); i++) {
      const auto s = scores(examples.row(i));
      hits += static_cast<float>(std::max_element(s.begin(), s.end()) - s.begin()) == examples.labels[i] ? 1 : 0;
    }
    return hits / static_cast<double>(examples.labels.size());
  }

 private:
  [[nodiscard]] std::vector<float> scores(std::span<const float> x) const {
    std::vector<float> s = bias_;
    for (size_t k = 0; k < s.size(); k++) s[k] += std::inner_product(x.begin(), x.end(), &weights_[k * width_], 0.0f);
    return s;
  }

  size_t width_;
  std::vector<float> weights_, bias_;
};

double best_linear_accuracy(const Examples& train, const Examples& test) {
  double best = 0;
  for (const float rate : {1e-4f, 1e-3f}) {
    LinearClassifier classifier(10, train.width);
    RandomStream random(1, Use::kTest);
    for (int epoch = 0; epoch < 8; epoch++) {
      classifier.train(train, rate, random);
      best = std::max(best, classifier.accuracy(test));
    }
  }
  return best;
}

}  // namespace

TEST_CASE("data synth makes the same files from the same seed", "[dataset][data]") {
  const test::TempDir dir;
  must(synthesize({.out = dir.path("a"), .classes = 3, .count = 12, .size = 28, .seed = 5}, Log::silent()));
  must(synthesize({.out = dir.path("b"), .classes = 3, .count = 12, .size = 28, .seed = 5}, Log::silent()));
  must(synthesize({.out = dir.path("c"), .classes = 3, .count = 12, .size = 28, .seed = 6}, Log::silent()));
  for (const char* name : {"/train.rec", "/train.idx", "/test.rec", "/test.idx"}) {
    CHECK(must(read_file(dir.path("a") + name)) == must(read_file(dir.path("b") + name)));
  }
  CHECK(must(read_file(dir.path("a/train.rec"))) != must(read_file(dir.path("c/train.rec"))));
  const data::DataSets sets = open_directory(dir.path("a"));
  CHECK(sets.train->size() == 12);
  CHECK(sets.validation->size() == 3);
}

TEST_CASE("data synth does not write over a data set", "[dataset][data]") {
  const test::TempDir dir;
  for (const char* name : {"train.rec", "test.rec"}) {
    const std::string directory = dir.path(name) + "-is-there";
    std::filesystem::create_directories(directory);
    must(write_file_atomic(directory + "/" + name, "images"));
    const Result<> made = synthesize({.out = directory, .count = 8}, Log::silent());
    REQUIRE_FALSE(made);
    CHECK(made.error().code == Code::kUsage);
    CHECK_THAT(made.error().text(), Catch::Contains(name) && Catch::Contains("--out"));
    CHECK(must(read_file(directory + "/" + name)) == "images");
  }
}

TEST_CASE("data synth refuses numbers out of range", "[dataset][data]") {
  const test::TempDir dir;
  const auto refused = [](const SynthOptions& options) {
    return synthesize(options, Log::silent()).error().code == Code::kUsage;
  };
  CHECK(refused({.out = dir.path(), .classes = 1}));
  CHECK(refused({.out = dir.path(), .classes = 71}));
  CHECK(refused({.out = dir.path(), .count = 3}));
  CHECK(refused({.out = dir.path(), .size = 8}));
  CHECK(refused({.out = ""}));
  must(synthesize({.out = dir.path(), .classes = 70, .count = 70}, Log::silent()));
}

// Takes the best test accuracy over epochs and learning rates, which favors the classifier. That it can learn at all is
// shown on a linear set: the same images, each with its label's number in one pixel.
TEST_CASE("a linear classifier stays below 70 % on the images of data synth", "[dataset][data]") {
  const test::TempDir dir;
  must(synthesize({.out = dir.path()}, Log::silent()));
  const data::DataSets sets = open_directory(dir.path(), 1.0f / 64);
  Examples train(*sets.train), test(*sets.validation);
  CHECK(best_linear_accuracy(train, test) < 0.7);
  for (Examples* set : {&train, &test}) {
    for (size_t i = 0; i < set->labels.size(); i++) {
      for (size_t k = 0; k < 10; k++)
        set->data[i * set->width + k] = static_cast<float>(k) == set->labels[i] ? 20.0f : 0.0f;
    }
  }
  CHECK(best_linear_accuracy(train, test) > 0.95);
}
