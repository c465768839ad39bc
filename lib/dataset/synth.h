// dtrain data synth: draws a small labeled set of JPEGs as real record files, to try dtrain without a download.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "images/image.h"

namespace dtrain::dataset {

struct SynthOptions {
  std::string out;       // directory: train.rec, test.rec and their indexes
  int64_t classes = 10;  // 2 to 70
  int64_t count = 2000;  // number of training images; the test set has a quarter of it
  int size = 32;         // edge in pixels, 16 to 512
  uint64_t seed = 0;
};
// Code::kUsage if a number is out of range. Equal options give identical files.
Result<> synthesize(const SynthOptions& options, const Log& log);

// Draws an image of class `label`: a grating with a wavelength of 5 to 9 pixels under noise. Its orientation is the
// label's, plus or minus at most a quarter of the distance to the next one. With more than 10 classes the colors of the
// stripes matter too. Phase and contrast are random, so the mean image of every class is the same gray. No linear
// classifier can therefore separate the classes, but a convolution that detects edges can, after some training.
images::Image draw_synthetic(int64_t label, int64_t classes, int size, RandomStream& random);

}  // namespace dtrain::dataset
