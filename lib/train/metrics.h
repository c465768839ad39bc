// Accuracy, top-k and cross-entropy over the batches of an epoch, and over the window since the last line of the log.
// formats.md section 8. Sums are doubles; sums of several workers may be added up.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::train {

// What is shown besides accuracy, in this order: --top-k, --loss.
struct MetricSpec {
  std::vector<int64_t> top_k = {};       // each at least 2; more than there are classes: all of them
  std::vector<std::string> losses = {};  // "ce", "crossentropy", "nll", "nll_loss"
};

struct MetricValue {
  std::string name;  // as the log prints it: "top_k_accuracy_5"
  double value;      // not a number before the first row
};

// One thread calls it. add() allocates nothing.
class Metrics {
 public:
  Metrics() : Metrics(always()) {}  // accuracy alone
  // Code::kUsage for a metric that does not exist.
  static Result<Metrics> create(const MetricSpec& spec);

  // Adds rows 0 .. count - 1 of probabilities [rows, classes] with labels [rows]; rows = labels.size().
  // Among equal probabilities the lower class ranks first; cross-entropy adds -ln(p[label] + 1e-12).
  // Code::kData for a label outside [0, classes): nothing of the batch is added.
  Result<> add(std::span<const float> probabilities, std::span<const float> labels, int64_t count);

  void start_epoch();   // forgets everything
  void start_window();  // forgets the window

  // The metrics to show: accuracy first.
  [[nodiscard]] std::vector<MetricValue> epoch() const { return shown(epoch_); }
  [[nodiscard]] std::vector<MetricValue> window() const { return shown(window_); }
  // These two are there whether shown or not.
  [[nodiscard]] double epoch_accuracy() const { return mean(epoch_, 1); }
  [[nodiscard]] double epoch_cross_entropy() const { return mean(epoch_, 2); }
  // The cross-entropy of a guess: ln of the number of classes of the last add(); not a number before it.
  [[nodiscard]] double chance_cross_entropy() const { return chance_; }
  [[nodiscard]] double window_accuracy() const { return mean(window_, 1); }
  [[nodiscard]] double window_cross_entropy() const { return mean(window_, 2); }

  // The epoch's sums: rows, then one number a metric, the same for equal specs. They are added up over workers, and
  // kept in checkpoints.
  [[nodiscard]] const std::vector<double>& sums() const { return epoch_; }
  // Code::kData if it is not as many numbers as sums().
  Result<> set_sums(std::span<const double> sums);

 private:
  struct Item {
    enum class Kind { kRank, kCrossEntropy };
    Kind kind;
    int64_t k;  // kRank: rows whose label is among the k most probable classes
    std::string name;
    bool shown;
  };
  static std::vector<Item> always() {
    return {{Item::Kind::kRank, 1, "accuracy", true}, {Item::Kind::kCrossEntropy, 0, "cross-entropy", false}};
  }
  explicit Metrics(std::vector<Item> items);
  static double mean(const std::vector<double>& sums, size_t index);
  [[nodiscard]] std::vector<MetricValue> shown(const std::vector<double>& sums) const;
  void add_row(std::span<const float> probabilities, int64_t label);

  std::vector<Item> items_;     // accuracy, cross-entropy, then the rest
  std::vector<double> epoch_;   // rows, then by item
  std::vector<double> window_;  // likewise
  double chance_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace dtrain::train
