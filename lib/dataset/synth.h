// dtrain data synth: draws a small labeled set of JPEG images and writes it to record files, to try dtrain without a
// download.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "images/image.h"

namespace dtrain::dataset {

struct SynthOptions {
  std::string out;       // the directory to write to: train.rec, test.rec and their indexes
  int64_t classes = 10;  // number of classes, 2 to 70
  int64_t count = 2000;  // number of training images; the test set has a quarter as many
  int size = 32;         // width and height in pixels, 16 to 512
  uint64_t seed = 0;
};
// Code::kUsage if a number is out of range. Equal options produce identical files.
Result<> synthesize(const SynthOptions& options, const Log& log);

// Draws an image of class `label`: a grating with a wavelength of 5 to 9 pixels, covered by noise. Its orientation is
// that of the label, with a deviation of at most a quarter of the distance to the next label's orientation. With more
// than 10 classes, the colors of the stripes also depend on the label. Phase and contrast are random, so the mean image
// of every class is the same gray. Therefore no linear classifier can separate the classes, but convolutions that
// detect edges can, after some training.
images::Image draw_synthetic(int64_t label, int64_t classes, int size, RandomStream& random);

}  // namespace dtrain::dataset
