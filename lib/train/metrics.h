// Accuracy, top-k accuracy and cross-entropy, computed over the batches of an epoch and over the window since the last
// log line. See docs/arithmetic.md, "Metrics". Sums are doubles, and the sums of several workers may be added.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::train {

// One result of the network: its name, and the index of its label among the labels of an example.
struct MetricHead {
  std::string name;
  size_t label = 0;
};

// The metrics to show in addition to accuracy, in this order: --top-k, then --loss. All are means over the network's
// results. If there are several results, the metrics of each result follow, named "accuracy_NAME" and so on.
struct MetricSpec {
  // The values of k for top-k accuracy, each at least 2; if k exceeds the number of classes, every row is a hit.
  std::vector<int64_t> top_k = {};
  std::vector<std::string> losses = {};  // the losses to show: "ce", "crossentropy", "nll", "nll_loss"
  std::vector<MetricHead> heads = {{}};
  size_t labels = 1;  // number of labels of an example
};

struct MetricValue {
  std::string name;  // as printed in the log: "top_k_accuracy_5"
  double value;      // NaN before the first row
};

// The cross-entropy of one row: -ln(p + 1e-12), where p is the probability of the label. Returns 0 instead of a
// negative value.
double row_cross_entropy(float probability);

// Used by one thread. add() allocates nothing.
class Metrics {
 public:
  Metrics() : Metrics(always()) {}  // the metric is accuracy alone
  // Code::kUsage if a metric does not exist.
  static Result<Metrics> create(const MetricSpec& spec);

  // Adds rows 0 .. count - 1 of each head. `results`: an exec::Executor or exec::DeviceGroup, whose result(head)
  // returns the head's probabilities [rows, classes]. The labels are [rows, labels]. Among equal probabilities the
  // lower class ranks first. The cross-entropy of a row is -ln(p[label] + 1e-12). Code::kData if a label is outside [0,
  // classes); then neither that head nor the following ones are added.
  template <class Results>
  Result<> add(Results& results, std::span<const float> labels, int64_t count) {
    for (size_t head = 0; head < heads_.size(); head++) {
      DT_TRY_VOID(add_head(head, results.result(head), labels, count));
    }
    count_rows(count);
    return {};
  }

  void start_epoch();   // begins an epoch: clears all sums
  void start_window();  // clears the sums of the window

  // The metrics to show, accuracy first.
  [[nodiscard]] std::vector<MetricValue> epoch() const { return shown(epoch_); }
  [[nodiscard]] std::vector<MetricValue> window() const { return shown(window_); }
  // Accuracy and cross-entropy are always computed, whether shown or not.
  [[nodiscard]] double epoch_accuracy() const { return mean(epoch_, 0); }
  [[nodiscard]] double epoch_cross_entropy() const { return mean(epoch_, 1); }
  // The cross-entropy of a uniform guess: ln of the number of classes in the last add(); NaN before the first one.
  [[nodiscard]] double chance_cross_entropy() const;
  [[nodiscard]] double window_accuracy() const { return mean(window_, 0); }
  [[nodiscard]] double window_cross_entropy() const { return mean(window_, 1); }

  // The sums of the epoch: the row count, then one sum per metric for each head. Equal specs give the same layout. The
  // sums are added over workers and stored in checkpoints.
  [[nodiscard]] const std::vector<double>& sums() const { return epoch_; }
  // Code::kData if the number of sums differs from that of sums().
  Result<> set_sums(std::span<const double> sums);

 private:
  struct Item {
    enum class Kind { kRank, kCrossEntropy };
    Kind kind;
    int64_t k;  // with kRank: a row counts as a hit if its label is among the k most probable classes
    std::string name;
    bool shown;
  };
  static std::vector<Item> always() {
    return {{Item::Kind::kRank, 1, "accuracy", true}, {Item::Kind::kCrossEntropy, 0, "cross-entropy", false}};
  }
  explicit Metrics(std::vector<Item> items, std::vector<MetricHead> heads = {{}}, size_t labels = 1);
  [[nodiscard]] size_t place(size_t head, size_t item) const { return 1 + head * items_.size() + item; }
  // The mean over all heads, and the mean of one head.
  [[nodiscard]] double mean(const std::vector<double>& sums, size_t item) const;
  [[nodiscard]] double mean(const std::vector<double>& sums, size_t head, size_t item) const;
  [[nodiscard]] std::vector<MetricValue> shown(const std::vector<double>& sums) const;
  Result<> add_head(size_t head, std::span<const float> probabilities, std::span<const float> labels, int64_t count);
  void add_row(size_t head, std::span<const float> probabilities, int64_t label);
  void count_rows(int64_t count);

  std::vector<Item> items_;  // accuracy, cross-entropy, then the requested metrics
  std::vector<MetricHead> heads_;
  size_t labels_;
  std::vector<double> epoch_;   // the row count, then one sum for each item of each head
  std::vector<double> window_;  // same layout as epoch_
  std::vector<double> chance_;  // indexed by head: the cross-entropy of a uniform guess; NaN before the first add()
};

}  // namespace dtrain::train
