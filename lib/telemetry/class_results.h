// How a network classified labeled images: which classes it confused, and the images with the highest loss. Training
// writes this into its run directory after each validation, and `dtrain report` reads it. See docs/formats.md, "Run
// directory".
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
  int64_t images = 0, right = 0;  // images with this label, and how many of them were classified correctly
  [[nodiscard]] double accuracy() const { return static_cast<double>(right) / static_cast<double>(images); }
};

// The number of images of one class that were classified as another class.
struct Confusion {
  int64_t label = 0, prediction = 0;
  int64_t images = 0;
  int64_t images_of_label = 0;
};

// Counts images by their label and the class that the network predicted.
class ClassCounts {
 public:
  using Pair = std::pair<int64_t, int64_t>;  // the label and the predicted class of an image

  void add(int64_t label, int64_t prediction, int64_t images = 1) { counts_[{label, prediction}] += images; }
  void add(const ClassCounts& other);

  [[nodiscard]] const std::map<Pair, int64_t>& counts() const { return counts_; }
  [[nodiscard]] int64_t images() const;
  // The classes that have images, in order of increasing accuracy. Classes with the same accuracy are sorted by label.
  [[nodiscard]] std::vector<ClassAccuracy> accuracies() const;
  // The confusions, sorted by decreasing frequency, then by label, then by prediction.
  [[nodiscard]] std::vector<Confusion> confusions() const;

 private:
  std::map<Pair, int64_t> counts_;
};

// An image and the network's prediction.
struct JudgedImage {
  int64_t label = 0, prediction = 0;
  double probability = 0;  // probability of the prediction
  double loss = 0;         // cross-entropy of the image
  std::string name = {};   // where the image is stored
  std::string image = {};  // a small PNG in base64; empty: there is none
};

// Number of images with the highest loss that are kept.
inline constexpr size_t kWorstImages = 20;

// Number of classes and confusions that are shown to people.
inline constexpr size_t kClassesShown = 20, kConfusionsShown = 10;

// Sorts the images by decreasing loss, and keeps at most kWorstImages.
void keep_worst(std::vector<JudgedImage>& images);

// The results of one worker for its share of a validation.
struct ClassResults {
  int64_t epoch = 0;
  uint64_t step = 0;  // number of weight updates before the validation
  int64_t rank = 0, workers = 1;
  int64_t images = 0;                         // number of images that all workers have classified, in total
  std::string result = {};                    // name of the network's result; empty: the network has only one
  std::vector<std::string> class_names = {};  // names of the classes, indexed by label; empty: not known
  ClassCounts counts = {};                    // how this worker's share of the images was classified
  std::vector<JudgedImage> worst = {};        // the images of this worker's share with the highest loss
};

// The file of a worker, such as "validation-3.json".
std::string class_results_file(int64_t rank);
bool is_class_results_file(std::string_view name);

std::string to_json(const ClassResults& results);
// Code::kData: the text is truncated, or from another program. The result can be shown in HTML if its names are
// escaped.
Result<ClassResults> parse_class_results(std::string_view text);

}  // namespace dtrain::telemetry
