#include "base/random.h"

#include <numeric>
#include <utility>

namespace dtrain {

std::vector<int64_t> permutation(int64_t n, RandomStream& random) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n - 1; i > 0; i--)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  return order;
}

}  // namespace dtrain
