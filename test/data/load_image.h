// Loads one image of a data set.
#pragma once

#include <string>
#include <vector>

#include "data/loading/loader.h"
#include "support/must.h"

namespace dtrain::test {

struct LoadedImage {
  std::vector<float> data;
  float label = 0;
};
inline LoadedImage load(const data::Dataset& dataset, int64_t index, uint64_t seed = 1) {
  RandomStream random(seed, Use::kTest);
  LoadedImage loaded;
  loaded.data.resize(static_cast<size_t>(element_count(dataset.image())));
  must(dataset.load(index, random, loaded.data, {&loaded.label, 1}));
  return loaded;
}

}  // namespace dtrain::test
