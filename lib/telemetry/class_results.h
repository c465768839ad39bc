// How a network classified labeled images: which classes it took for which, and the images that it got most wrong.
// Training writes this after each validation into its run directory, where `dtrain report` reads it. See
// docs/formats.md, "Run directory".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace dtrain::telemetry {

struct ClassAccuracy {
  int64_t label = 0;
  int64_t images = 0, right = 0;  // with this label; of them, those that were classified correctly
  [[nodiscard]] double accuracy() const { return static_cast<double>(right) / static_cast<double>(images); }
};

// Images of one class that were taken for another one.
struct Confusion {
  int64_t label = 0, prediction = 0;
  int64_t images = 0;
  int64_t images_of_label = 0;
};

// Counts images by their label and the class that the network predicted.
class ClassCounts {
 public:
  using Pair = std::pair<int64_t, int64_t>;  // label, prediction

  void add(int64_t label, int64_t prediction, int64_t images = 1) { counts_[{label, prediction}] += images; }
  void add(const ClassCounts& other);

  [[nodiscard]] const std::map<Pair, int64_t>& counts() const { return counts_; }
  [[nodiscard]] int64_t images() const;
  // The classes that have images, the least accurate first; of equal ones the lower label first.
  [[nodiscard]] std::vector<ClassAccuracy> accuracies() const;
  // The most frequent one first; of equal ones the lower label, then the lower prediction first.
  [[nodiscard]] std::vector<Confusion> confusions() const;

 private:
  std::map<Pair, int64_t> counts_;
};

// An image and what the network took it for.
struct JudgedImage {
  int64_t label = 0, prediction = 0;
  double probability = 0;  // of the prediction
  double loss = 0;         // cross-entropy
  std::string name = {};   // where the image is stored
  std::string image = {};  // a small PNG in base64; empty: there is none
};

// How many images with the highest loss are kept.
inline constexpr size_t kWorstImages = 20;

// How many classes and confusions people are shown.
inline constexpr size_t kClassesShown = 20, kConfusionsShown = 10;

// The images with the highest loss first, and no more than kWorstImages.
void keep_worst(std::vector<JudgedImage>& images);

// What one worker writes about its share of a validation.
struct ClassResults {
  int64_t epoch = 0;
  uint64_t step = 0;  // updates of the weights before
  int64_t rank = 0, workers = 1;
  int64_t images = 0;                         // that all workers together have classified
  std::string result = {};                    // which result of the network; empty: it has only one
  std::vector<std::string> class_names = {};  // by label; empty: not known
  ClassCounts counts = {};                    // of this worker's share
  std::vector<JudgedImage> worst = {};        // of this worker's share
};

// "validation-3.json".
std::string class_results_file(int64_t rank);
bool is_class_results_file(std::string_view name);

std::string to_json(const ClassResults& results);
// Code::kData: the text is cut short, or from another program. Everything in the result can be shown in HTML once its
// names are escaped.
Result<ClassResults> parse_class_results(std::string_view text);

}  // namespace dtrain::telemetry
