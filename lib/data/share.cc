#include "data/loader.h"

namespace dtrain::data {

Share equal_share(int64_t records, int64_t rank, int64_t workers) {
  DT_CHECK(workers > 0 && rank >= 0 && rank < workers, "rank {} of {}", rank, workers);
  // round(N j / W), half away from 0, in whole numbers
  const auto border = [&](int64_t j) { return (2 * records * j + workers) / (2 * workers); };
  return {border(rank), border(rank + 1)};
}

int64_t batches_per_epoch(int64_t largest_share, int64_t batch_size) {
  DT_CHECK(batch_size > 0, "batch size {}", batch_size);
  return (largest_share + batch_size - 1) / batch_size;
}

}  // namespace dtrain::data
