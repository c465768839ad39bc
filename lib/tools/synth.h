// dtrain data synth: draws a small labelled set of JPEGs as real record files, to try things without a download.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "data/image.h"

namespace dtrain::tools {

struct SynthOptions {
  std::string out;       // directory: train.rec, test.rec and their indexes
  int64_t classes = 10;  // 2 to 70
  int64_t count = 2000;  // images for training; a quarter as many for testing
  int size = 32;         // edge in pixels, 16 to 512
  uint64_t seed = 0;
};
// Code::kUsage if a number is out of range. Equal options give equal files.
Result<> synthesize(const SynthOptions& options, const Log& log);

// A picture of `label`: a grating of wavelength 5 to 9 pixels under noise, at the label's orientation give or take a
// quarter of the distance to the next one. Beyond 10 classes the colours of its stripes count too. Phase and contrast
// are drawn, so the mean picture of each class is the same gray: no linear classifier tells them apart, a convolution
// that looks for edges does, after some training.
data::Image draw_synthetic(int64_t label, int64_t classes, int size, RandomStream& random);

}  // namespace dtrain::tools
