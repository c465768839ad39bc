// Accuracy, top-k accuracy and cross-entropy, both over the batches of an epoch and over the window since the last log
// line. See docs/arithmetic.md, "Metrics". Sums are doubles, and the sums of several workers may be added.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::train {

// The metrics to show besides accuracy, in this order: --top-k, then --loss.
struct MetricSpec {
  std::vector<int64_t> top_k = {};       // each at least 2; if larger than the number of classes, every row is a hit
  std::vector<std::string> losses = {};  // "ce", "crossentropy", "nll", "nll_loss"
};

struct MetricValue {
  std::string name;  // as printed in the log: "top_k_accuracy_5"
  double value;      // NaN before the first row
};

// Used by one thread. add() allocates nothing.
class Metrics {
 public:
  Metrics() : Metrics(always()) {}  // accuracy alone
  // Code::kUsage for a metric that does not exist.
  static Result<Metrics> create(const MetricSpec& spec);

  // Adds rows 0 .. count - 1 of probabilities [rows, classes] with labels [rows]; rows = labels.size(). Among equal
  // probabilities the lower class ranks first. Cross-entropy adds -ln(p[label] + 1e-12) for each row. Code::kData for a
  // label outside [0, classes); then nothing of the batch is added.
  Result<> add(std::span<const float> probabilities, std::span<const float> labels, int64_t count);

  void start_epoch();   // clears all sums
  void start_window();  // clears the sums of the window

  // The metrics to show, accuracy first.
  [[nodiscard]] std::vector<MetricValue> epoch() const { return shown(epoch_); }
  [[nodiscard]] std::vector<MetricValue> window() const { return shown(window_); }
  // Accuracy and cross-entropy are always computed, whether shown or not.
  [[nodiscard]] double epoch_accuracy() const { return mean(epoch_, 1); }
  [[nodiscard]] double epoch_cross_entropy() const { return mean(epoch_, 2); }
  // The cross-entropy of a uniform guess: ln of the number of classes in the last add(); NaN before the first one.
  [[nodiscard]] double chance_cross_entropy() const { return chance_; }
  [[nodiscard]] double window_accuracy() const { return mean(window_, 1); }
  [[nodiscard]] double window_cross_entropy() const { return mean(window_, 2); }

  // The epoch's sums: the row count, then one sum per metric. Equal specs give the same layout. The sums are added over
  // workers and stored in checkpoints.
  [[nodiscard]] const std::vector<double>& sums() const { return epoch_; }
  // Code::kData if the count of numbers differs from that of sums().
  Result<> set_sums(std::span<const double> sums);

 private:
  struct Item {
    enum class Kind { kRank, kCrossEntropy };
    Kind kind;
    int64_t k;  // kRank: counts rows whose label is among the k most probable classes
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

  std::vector<Item> items_;     // accuracy, cross-entropy, then the others
  std::vector<double> epoch_;   // row count, then one sum per item
  std::vector<double> window_;  // the same layout
  double chance_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace dtrain::train
