#include "data/loading/epoch_rest.h"

#include <algorithm>

namespace dtrain::data {
namespace {

std::vector<int64_t> slice(const std::vector<int64_t>& list, const Share& share) {
  return {list.begin() + share.begin, list.begin() + share.end};
}

}  // namespace

int64_t count_left(const EpochRest& rest) {
  int64_t left = 0;
  if (rest.read.empty()) return left;
  for (const Share& share : rest.read.back().shares)
    left += std::max<int64_t>(share.size() - rest.read.back().records, 0);
  return left;
}

std::vector<int64_t> records_left(const EpochRest& rest, int64_t epoch, const EpochOrder& order,
                                  const std::function<int64_t(int64_t)>& stored_bytes) {
  std::vector<int64_t> left;
  for (size_t i = 0; i < rest.read.size(); i++) {
    std::vector<int64_t> still_left;
    for (const Share& share : rest.read[i].shares) {
      const std::vector<int64_t> records =
          i == 0 ? records_in_order(share, epoch, order, stored_bytes) : slice(left, share);
      const int64_t read = std::min(rest.read[i].records, share.size());
      still_left.insert(still_left.end(), records.begin() + read, records.end());
    }
    left = std::move(still_left);
  }
  return left;
}

std::vector<int64_t> order_of_rest(const EpochRest& rest, const std::vector<int64_t>& left, int64_t rank,
                                   int64_t workers, int64_t batch_size) {
  const Share share = equal_share(static_cast<int64_t>(left.size()), rank, workers);
  // If there are fewer records than workers, some workers read records that others read too.
  const std::vector<int64_t> part = share.size() > 0 ? slice(left, share) : left;
  std::vector<int64_t> order;
  if (part.empty()) return order;
  for (int64_t place = 0; place < rest.first_step * batch_size; place++) {
    order.push_back(part[static_cast<size_t>(place) % part.size()]);
  }
  order.insert(order.end(), part.begin(), part.end());
  return order;
}

}  // namespace dtrain::data
