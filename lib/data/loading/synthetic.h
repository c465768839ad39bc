// Random data in memory, for measuring speed without files: --benchmark 1.
#pragma once

#include <memory>
#include <vector>

#include "data/loading/loader.h"

namespace dtrain::data {

struct SyntheticOptions {
  Shape image;                          // shape of the images: [c, h, w]
  std::vector<int64_t> classes = {10};  // number of classes of each label of a record
  int64_t batch_size = 128;
  int64_t batches = 1;  // number of batches per epoch
  uint64_t seed = 0;
  int64_t rank = 0;  // rank of the worker; each rank draws different data
};
// Makes a data set of batch_size * batches records. The first batch is drawn immediately: images from U(-1, 1), and
// each label from 0 to its number of classes - 1. All other batches repeat the first one, so without shuffling every
// batch is the same and costs only a copy.
std::shared_ptr<const Dataset> synthetic(const SyntheticOptions& options);

}  // namespace dtrain::data
