#include "train/gradient_sum.h"

#include <algorithm>
#include <functional>
#include <span>

namespace dtrain::train {
namespace {

void add(std::span<const float> from, std::span<float> to) {
  std::ranges::transform(to, from, to.begin(), std::plus<>());
}

}  // namespace

void GradientSum::take(size_t device, const ParameterView& view, size_t begin, size_t end) {
  std::vector<std::vector<float>>& sums = of_device_[device];
  sums.resize(view.parameters.size());
  for (size_t p = begin; p < end; p++) {
    const std::span<const float> gradient = view.parameters[p].gradient;
    if (samples_ == 0) {
      sums[p].assign(gradient.begin(), gradient.end());
    } else {
      add(gradient, sums[p]);
    }
  }
}

void GradientSum::add_to(size_t device, const ParameterView& view, size_t begin, size_t end) const {
  for (size_t p = begin; p < end; p++) add(of_device_[device][p], view.parameters[p].gradient);
}

}  // namespace dtrain::train
