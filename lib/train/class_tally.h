// How a network classifies labeled images over a pass: the counts for each pair of classes, and the images with the
// highest loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/loading/loader.h"
#include "images/image.h"
#include "telemetry/class_results.h"
#include "tensor/shape.h"
#include "train/metrics.h"
#include "train/validation.h"

namespace dtrain::train {

// Used by one thread. Evaluates only the first of the network's results.
class ClassTally {
 public:
  // `image`: shape [c, h, w] of the images in the batches, some of which are kept. Empty if no images are kept.
  ClassTally(const MetricSpec& spec, Shape image);

  void start();  // begins a new pass: forgets all counts and images
  // Adds the rows of a validation batch: `probabilities` [rows, classes], with labels that are classes. A row that
  // contains a NaN has no prediction and is left out.
  void add(std::span<const float> probabilities, const data::LoadedBatch& batch);

  [[nodiscard]] const telemetry::ClassCounts& counts() const { return counts_; }
  // The images with the highest loss, highest first, as thumbnails with the names that `dataset` gives them.
  [[nodiscard]] std::vector<telemetry::JudgedImage> worst(const data::Dataset& dataset) const;

 private:
  struct Candidate {
    telemetry::JudgedImage judged;
    int64_t record = 0;
    images::Image image;  // without pixels if no images are kept
  };
  void consider(const telemetry::JudgedImage& judged, const data::LoadedBatch& batch, int64_t row);

  size_t labels_, label_;  // number of labels of an example, and the index of the first result's label
  Shape image_;
  telemetry::ClassCounts counts_;
  // Candidates for the images with the highest loss, highest first; at most telemetry::kWorstImages.
  std::vector<Candidate> worst_;
};

// Writes how a worker's share of the validation images was classified into its run directory, for `dtrain report`
// (telemetry/class_results.h).
class ClassReport final : public ValidationWatch {
 public:
  struct Options {
    MetricSpec metrics;
    Shape image;                           // shape of the validation images: [c, h, w]
    const data::Dataset& dataset;          // the validation data; borrowed
    std::vector<std::string> class_names;  // names of the classes, indexed by label; empty if not known
    int64_t rank = 0, workers = 1;
    std::string directory;  // the run directory, which must exist
    Log log;                // gets a warning if the file cannot be written, which does not end the training
  };

  explicit ClassReport(Options options);
  void begin() override { tally_.start(); }
  void add(std::span<const float> probabilities, const data::LoadedBatch& batch) override {
    tally_.add(probabilities, batch);
  }
  void end(const Pass& pass) override;

 private:
  Options options_;
  ClassTally tally_;
};

}  // namespace dtrain::train
