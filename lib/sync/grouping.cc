#include "sync/grouping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dtrain::sync {
namespace {

constexpr size_t kShown = 10;  // minimum number of partitions that a report lists

// A half-open interval [begin, end) of the sorted speeds.
struct Interval {
  size_t begin = 0, end = 0;
  [[nodiscard]] size_t size() const { return end - begin; }
};
using Intervals = std::vector<Interval>;

// The best partitions of sorted numbers into 1, 2, ... intervals, each derived from the previous one.
class Partitions {
 public:
  explicit Partitions(const std::vector<double>& ascending) : x_(ascending) {
    const double mean = std::accumulate(x_.begin(), x_.end(), 0.0) / static_cast<double>(x_.size());
    sums_.push_back(0);
    squares_.push_back(0);
    for (const double x : x_) {  // subtract the mean first: differences of large sums would lose precision
      sums_.push_back(sums_.back() + x - mean);
      squares_.push_back(squares_.back() + (x - mean) * (x - mean));
    }
    for (size_t end = 0; end <= x_.size(); end++) least_.push_back(ssw({0, end}));
    cuts_.emplace_back(x_.size() + 1, 0);
  }

  [[nodiscard]] size_t largest_k() const { return cuts_.size(); }

  void add() {
    const size_t k = cuts_.size();
    std::vector<double> least(x_.size() + 1, std::numeric_limits<double>::infinity());
    std::vector<size_t>& cuts = cuts_.emplace_back(x_.size() + 1, 0);
    for (size_t end = k + 1; end <= x_.size(); end++) {
      for (size_t cut = k; cut < end; cut++) {
        const double sum = least_[cut] + ssw({cut, end});
        if (sum >= least[end]) continue;
        least[end] = sum;
        cuts[end] = cut;
      }
    }
    least_ = std::move(least);
  }

  [[nodiscard]] Intervals best(size_t k) const {
    Intervals intervals(k);
    size_t end = x_.size();
    for (size_t i = k; i-- > 0; end = intervals[i].begin) intervals[i] = {cuts_[i][end], end};
    return intervals;
  }

  [[nodiscard]] double mean(const Interval& part) const {
    const auto begin = x_.begin() + static_cast<ptrdiff_t>(part.begin);
    return std::accumulate(begin, begin + static_cast<ptrdiff_t>(part.size()), 0.0) / static_cast<double>(part.size());
  }

  [[nodiscard]] Partition describe(size_t k) const {
    Partition partition{.k = static_cast<int64_t>(k)};
    const double mean_of_all = mean({0, x_.size()});
    double within = 0, between = 0;
    for (const Interval& part : best(k)) {
      const double own = mean(part);
      partition.spread = std::max(partition.spread, (x_[part.end - 1] - x_[part.begin]) / own);
      between += static_cast<double>(part.size()) * (own - mean_of_all) * (own - mean_of_all);
      within += ssw(part);
    }
    if (k < 2 || k >= x_.size() || x_.front() == x_.back()) return partition;
    partition.vrc = within > 0 ? between / static_cast<double>(k - 1) / (within / static_cast<double>(x_.size() - k))
                               : std::numeric_limits<double>::infinity();
    return partition;
  }

 private:
  // The sum of the squared distances of the interval's numbers from their mean (SSW); exactly 0 for equal numbers.
  [[nodiscard]] double ssw(const Interval& part) const {
    if (part.size() < 2 || x_[part.begin] == x_[part.end - 1]) return 0;
    const double sum = sums_[part.end] - sums_[part.begin];
    return std::max(0.0, squares_[part.end] - squares_[part.begin] - sum * sum / static_cast<double>(part.size()));
  }

  const std::vector<double>& x_;
  std::vector<double> sums_, squares_;  // prefix sums over the first 0, 1, ... numbers
  std::vector<double> least_;  // least_[end]: the smallest SSW of the first `end` numbers in cuts_.size() intervals
  // cuts_[k - 1][end]: where the last of k intervals of the first `end` numbers begins.
  std::vector<std::vector<size_t>> cuts_;
};

// The number of groups that the criterion chooses. Nullopt if the choice needs partitions into more than by_k.size()
// groups.
std::optional<size_t> choose(const std::vector<Partition>& by_k, size_t workers, const GroupingOptions& options) {
  if (options.count > 0) return static_cast<size_t>(options.count);
  if (options.criterion == GroupingOptions::Criterion::kTolerance) {
    const auto fits = [&](const Partition& p) { return p.spread <= options.tolerance; };
    const auto first = std::find_if(by_k.begin(), by_k.end(), fits);
    if (first == by_k.end()) return std::nullopt;
    return static_cast<size_t>(first->k);
  }
  if (by_k.size() + 1 < workers) return std::nullopt;
  const auto less = [](const Partition& a, const Partition& b) { return a.vrc.value_or(0) < b.vrc.value_or(0); };
  return static_cast<size_t>(std::max_element(by_k.begin(), by_k.end(), less)->k);
}

void merge_small(const Partitions& partitions, size_t min_size, Intervals& groups) {
  const auto smaller = [](const Interval& a, const Interval& b) { return a.size() < b.size(); };
  while (groups.size() > 1) {
    const auto small = std::min_element(groups.begin(), groups.end(), smaller);
    if (small->size() >= min_size) return;
    const double own = partitions.mean(*small);
    const bool has_slower = small != groups.begin(), has_faster = small + 1 != groups.end();
    const bool to_faster =
        has_faster && (!has_slower || partitions.mean(*(small + 1)) - own < own - partitions.mean(*(small - 1)));
    const auto first = to_faster ? small : small - 1;
    first->end = (first + 1)->end;
    groups.erase(first + 1);
  }
}

Result<> check(const std::vector<double>& speeds, const GroupingOptions& options) {
  if (speeds.empty()) return fail(Code::kData, "the speed of no worker is known");
  for (size_t rank = 0; rank < speeds.size(); rank++) {
    if (std::isfinite(speeds[rank]) && speeds[rank] > 0) continue;
    return fail(Code::kData, "the speed of worker {} is {}, but must be a number above 0", rank, speeds[rank]);
  }
  const auto workers = static_cast<int64_t>(speeds.size());
  if (workers > kGroupingWorkersMax)
    return fail(Code::kUsage, "cannot group {} workers: the limit is {}", workers, kGroupingWorkersMax);
  if (options.count > workers)
    return fail(Code::kUsage, "cannot make {} groups of {} workers: each group needs a worker", options.count, workers);
  return {};
}

}  // namespace

Result<Grouping> group_by_speed(const std::vector<double>& speeds, const GroupingOptions& options) {
  DT_TRY_VOID(check(speeds, options));
  const size_t workers = speeds.size();
  std::vector<size_t> ranks(workers);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) { return speeds[a] < speeds[b]; });
  std::vector<double> ascending;
  ascending.reserve(workers);
  for (const size_t rank : ranks) ascending.push_back(speeds[rank]);

  Partitions partitions(ascending);
  Grouping grouping;
  grouping.by_k.push_back(partitions.describe(1));
  std::optional<size_t> k = choose(grouping.by_k, workers, options);
  while (partitions.largest_k() < workers && (partitions.largest_k() < std::max(k.value_or(workers), kShown))) {
    partitions.add();
    grouping.by_k.push_back(partitions.describe(partitions.largest_k()));
    k = choose(grouping.by_k, workers, options);
  }
  grouping.chosen_k = static_cast<int64_t>(k.value());
  Intervals groups = partitions.best(k.value());
  merge_small(partitions, static_cast<size_t>(options.min_size), groups);

  std::reverse(groups.begin(), groups.end());
  grouping.group_of.resize(workers);
  for (const Interval& group : groups) {
    for (size_t i = group.begin; i < group.end; i++) {
      grouping.group_of[ranks[i]] = static_cast<Group>(grouping.speeds.size());
    }
    grouping.speeds.push_back(ascending[group.begin]);
  }
  return grouping;
}

}  // namespace dtrain::sync
