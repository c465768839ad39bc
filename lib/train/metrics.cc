#include "train/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtrain::train {
namespace {

constexpr double kLogOffset = 1e-12;

// Returns how many classes rank before the label: those with a larger probability, or with an equal one and a lower
// index. NaN counts as larger, so a row of NaNs is a miss.
int64_t rank_of(std::span<const float> p, int64_t label) {
  const auto at = static_cast<size_t>(label);
  int64_t rank = 0;
  for (size_t i = 0; i < at; i++) rank += p[i] < p[at] ? 0 : 1;
  for (size_t i = at + 1; i < p.size(); i++) rank += p[i] <= p[at] ? 0 : 1;
  return std::isnan(p[at]) ? static_cast<int64_t>(p.size()) : rank;
}

}  // namespace

double row_cross_entropy(float probability) {
  // The result must not be negative: because of the offset, the logarithm of 1 would be slightly above 0, and
  // "-0.000000" in a log looks like an error.
  const double p = static_cast<double>(probability) + kLogOffset;
  return p >= 1 ? 0 : -std::log(p);
}

Metrics::Metrics(std::vector<Item> items, std::vector<MetricHead> heads, size_t labels)
    : items_(std::move(items)),
      heads_(std::move(heads)),
      labels_(labels),
      epoch_(items_.size() * heads_.size() + 1, 0.0),
      window_(epoch_.size(), 0.0),
      chance_(heads_.size(), std::numeric_limits<double>::quiet_NaN()) {}

Result<Metrics> Metrics::create(const MetricSpec& spec) {
  using Kind = Item::Kind;
  std::vector<Item> items = always();
  for (const int64_t k : spec.top_k) {
    if (k < 2) return fail(Code::kUsage, "--top-k {}: k must be at least 2 (1 is the accuracy)", k);
    items.push_back({Kind::kRank, k, fmt::format("top_k_accuracy_{}", k), true});
  }
  for (const std::string& loss : spec.losses) {
    const bool nll = loss == "nll" || loss == "nll_loss";
    if (!nll && loss != "ce" && loss != "crossentropy") {
      return fail(Code::kUsage, "--loss {}: must be ce or nll", loss);
    }
    items.push_back({Kind::kCrossEntropy, 0, nll ? "nll-loss" : "cross-entropy", true});
  }
  return Metrics(std::move(items), spec.heads, spec.labels);
}

void Metrics::add_row(size_t head, std::span<const float> probabilities, int64_t label) {
  const int64_t rank = rank_of(probabilities, label);
  const double loss = row_cross_entropy(probabilities[static_cast<size_t>(label)]);
  for (size_t i = 0; i < items_.size(); i++) {
    const double value = items_[i].kind == Item::Kind::kRank ? (rank < items_[i].k ? 1.0 : 0.0) : loss;
    epoch_[place(head, i)] += value;
    window_[place(head, i)] += value;
  }
}

void Metrics::count_rows(int64_t count) {
  epoch_[0] += static_cast<double>(count);
  window_[0] += static_cast<double>(count);
}

Result<> Metrics::add_head(size_t head, std::span<const float> probabilities, std::span<const float> labels,
                           int64_t count) {
  const size_t batch = labels.size() / labels_;
  DT_CHECK(batch > 0 && probabilities.size() % batch == 0, "there are {} probabilities for {} rows",
           probabilities.size(), batch);
  const size_t classes = probabilities.size() / batch;
  chance_[head] = std::log(static_cast<double>(classes));
  const auto rows = static_cast<size_t>(count);
  DT_CHECK(rows <= batch, "{} rows of {}", rows, batch);
  const auto label_of = [&](size_t row) { return labels[row * labels_ + heads_[head].label]; };
  for (size_t i = 0; i < rows; i++) {
    if (!(label_of(i) >= 0 && label_of(i) < static_cast<float>(classes))) {
      return fail(Code::kData, "label {} in row {} of a batch: the network has {} classes", label_of(i), i, classes);
    }
  }
  for (size_t i = 0; i < rows; i++) {
    add_row(head, probabilities.subspan(i * classes, classes), static_cast<int64_t>(label_of(i)));
  }
  return {};
}

double Metrics::mean(const std::vector<double>& sums, size_t head, size_t item) const {
  return sums[0] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[place(head, item)] / sums[0];
}

double Metrics::mean(const std::vector<double>& sums, size_t item) const {
  double sum = 0;
  for (size_t head = 0; head < heads_.size(); head++) sum += mean(sums, head, item);
  return sum / static_cast<double>(heads_.size());
}

double Metrics::chance_cross_entropy() const {
  return std::accumulate(chance_.begin(), chance_.end(), 0.0) / static_cast<double>(chance_.size());
}

void Metrics::start_epoch() {
  std::fill(epoch_.begin(), epoch_.end(), 0.0);
  start_window();
}

void Metrics::start_window() {
  std::fill(window_.begin(), window_.end(), 0.0);
}

std::vector<MetricValue> Metrics::shown(const std::vector<double>& sums) const {
  std::vector<MetricValue> values;
  for (size_t i = 0; i < items_.size(); i++) {
    if (items_[i].shown) values.push_back({items_[i].name, mean(sums, i)});
  }
  for (size_t head = 0; head < heads_.size() && heads_.size() > 1; head++) {
    for (size_t i = 0; i < items_.size(); i++) {
      if (!items_[i].shown) continue;
      values.push_back({fmt::format("{}_{}", items_[i].name, heads_[head].name), mean(sums, head, i)});
    }
  }
  return values;
}

Result<> Metrics::set_sums(std::span<const double> sums) {
  if (sums.size() != epoch_.size()) {
    return fail(Code::kData, "{} sums of metrics were read or received, but this run has {}", sums.size(),
                epoch_.size());
  }
  epoch_.assign(sums.begin(), sums.end());
  return {};
}

}  // namespace dtrain::train
