// Batches of pixels, and the comparison of a step on pixels with one on the floats that they become.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cases.h"

namespace dtrain::exec::test {

// Random pixels, half of the images mirrored, and a normalization with a different mean (or mean image) and factor for
// each channel.
struct PixelBatch {
  std::shared_ptr<const Normalisation> normalisation;
  std::vector<uint8_t> pixels = {}, mirrored = {};
  std::vector<float> labels = {};
  std::vector<uint64_t> keys = {};
  [[nodiscard]] Batch view() const {
    return {.inputs = {Batch::Input{{}, pixels, mirrored}}, .labels = labels, .keys = keys};
  }
  [[nodiscard]] HostBatch floats() const;
};
PixelBatch make_pixels(const Shape& image, int64_t batch, int64_t classes, bool mean_image, uint64_t seed);

// Trains three steps on pixels and on the floats that they are converted to, and runs an executor for inference on
// both. Returns the first probability, gradient or statistic whose bits differ; "" if none does. `options` must not
// have a normalization.
std::string compare_pixels(Backend& backend, const graph::Graph& graph, const Options& options, bool mean_image);

}  // namespace dtrain::exec::test
