#include "observe/runs/curve.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dtrain::observe {

Curve::Bucket Curve::joined(const Bucket& before, const Bucket& after) {
  const std::array<const Measured*, 4> all = {&before.first, &before.second, &after.first, &after.second};
  size_t low = 0, high = 0;
  for (size_t i = 1; i < all.size(); i++) {
    if (std::isnan(all[low]->value) || all[i]->value < all[low]->value) low = i;
    if (std::isnan(all[high]->value) || all[i]->value > all[high]->value) high = i;
  }
  return low <= high ? Bucket{*all[low], *all[high]} : Bucket{*all[high], *all[low]};
}

void Curve::halve() {
  for (size_t i = 0; i < buckets_.size() / 2; i++) buckets_[i] = joined(buckets_[2 * i], buckets_[2 * i + 1]);
  buckets_.resize(buckets_.size() / 2);
  per_bucket_ *= 2;
  in_last_ = per_bucket_;
}

void Curve::add(const Measured& measured) {
  last_ = measured;
  count_++;
  if (std::isfinite(measured.value)) {
    finite_++;
    sum_ += measured.value;
    highest_ = std::isnan(highest_) ? measured.value : std::max(highest_, measured.value);
  }
  if (buckets_.size() == kBucketsMax && in_last_ == per_bucket_) halve();
  if (!buckets_.empty() && in_last_ < per_bucket_) {
    buckets_.back() = joined(buckets_.back(), {measured, measured});
    in_last_++;
    return;
  }
  buckets_.push_back({measured, measured});
  in_last_ = 1;
}

std::vector<Measured> Curve::points() const {
  std::vector<Measured> points;
  const auto same = [](const Measured& a, const Measured& b) {
    return a.value == b.value && (a.at.step == b.at.step || (std::isnan(a.at.step) && std::isnan(b.at.step))) &&
           (a.at.seconds == b.at.seconds || (std::isnan(a.at.seconds) && std::isnan(b.at.seconds)));
  };
  for (const Bucket& bucket : buckets_) {
    points.push_back(bucket.first);
    if (per_bucket_ > 1 && !same(bucket.first, bucket.second)) points.push_back(bucket.second);
  }
  if (per_bucket_ > 1 && !same(points.back(), last_)) points.push_back(last_);
  return points;
}

double Curve::mean() const {
  return finite_ == 0 ? kUnknown : sum_ / static_cast<double>(finite_);
}

double Curve::highest() const {
  return highest_;
}

void Curve::change_moments(const std::function<void(Moment&)>& change) {
  for (Bucket& bucket : buckets_) {
    change(bucket.first.at);
    change(bucket.second.at);
  }
  change(last_.at);
}

}  // namespace dtrain::observe
