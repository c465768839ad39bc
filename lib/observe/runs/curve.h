// A metric over a run, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace dtrain::observe {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A place in a run, on each of the axes that charts may have; kUnknown where a file does not tell.
struct Moment {
  double step = kUnknown;     // steps since the run began
  double samples = kUnknown;  // of all workers, since the run began
  double seconds = kUnknown;  // of training, since the run began
  double epoch = kUnknown;    // finished epochs, with fractions
};

struct Measured {
  Moment at;
  double value = kUnknown;
};

// Takes any number of values. Of each few neighbors it keeps the lowest and the highest one, so that its size is
// bounded and no peak is lost.
class Curve {
 public:
  static constexpr size_t kBucketsMax = 1024;

  void add(const Measured& measured);
  // In the order of arrival, at most twice kBucketsMax and the last one.
  [[nodiscard]] std::vector<Measured> points() const;
  [[nodiscard]] const Measured& last() const { return last_; }  // kUnknown if there is none
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] double mean() const;     // of the finite values; kUnknown if there are none
  [[nodiscard]] double highest() const;  // as mean()
  [[nodiscard]] double sum() const { return sum_; }
  void change_moments(const std::function<void(Moment&)>& change);

 private:
  // Neighbors; of one value, `first` and `second` are the same.
  struct Bucket {
    Measured first, second;  // the lowest and the highest one, in the order of arrival
  };
  static Bucket joined(const Bucket& before, const Bucket& after);
  void halve();

  std::vector<Bucket> buckets_;
  uint64_t per_bucket_ = 1;
  uint64_t in_last_ = 0;  // values in the last bucket
  Measured last_;
  uint64_t count_ = 0, finite_ = 0;
  double sum_ = 0, highest_ = kUnknown;
};

}  // namespace dtrain::observe
