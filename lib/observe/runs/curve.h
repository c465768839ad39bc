// The values of a metric over a run, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace dtrain::observe {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A position in a run, on each of the axes that charts may have; kUnknown if a file does not contain it.
struct Moment {
  double step = kUnknown;     // steps since the run began
  double samples = kUnknown;  // samples of all workers since the run began
  double seconds = kUnknown;  // time of training since the run began
  double epoch = kUnknown;    // number of finished epochs, as a fraction: 2.5 is the middle of the third epoch
};

struct Measured {
  Moment at;
  double value = kUnknown;
};

// Accepts any number of values. For each group of neighboring values, keeps only the lowest and the highest, so that
// its size is bounded and no peak is lost.
class Curve {
 public:
  static constexpr size_t kBucketsMax = 1024;

  void add(const Measured& measured);
  // The kept values in order of arrival: at most twice kBucketsMax, and the last value.
  [[nodiscard]] std::vector<Measured> points() const;
  [[nodiscard]] const Measured& last() const { return last_; }  // kUnknown if there is no value
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] double mean() const;     // mean of the finite values; kUnknown if there are none
  [[nodiscard]] double highest() const;  // the highest of the finite values; kUnknown if there are none
  [[nodiscard]] double sum() const { return sum_; }
  void change_moments(const std::function<void(Moment&)>& change);

 private:
  // Neighboring values. If there is only one value, `first` and `second` are equal.
  struct Bucket {
    Measured first, second;  // the lowest and the highest value, in order of arrival
  };
  static Bucket joined(const Bucket& before, const Bucket& after);
  void halve();

  std::vector<Bucket> buckets_;
  uint64_t per_bucket_ = 1;
  uint64_t in_last_ = 0;  // number of values in the last bucket
  Measured last_;
  uint64_t count_ = 0, finite_ = 0;
  double sum_ = 0, highest_ = kUnknown;
};

}  // namespace dtrain::observe
