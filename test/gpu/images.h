// Labeled images in two uncompressed idx files, the format of MNIST. A file has big-endian 32-bit numbers (a magic
// number, 0x0800 + the number of dimensions, and the dimensions), then one byte per value. NAME-images.idx has the
// dimensions [images, height, width] or [images, channels, height, width], NAME-labels.idx [images].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain::gpu {

struct LabeledImages {
  Shape shape;  // [channels, height, width]
  std::vector<uint8_t> pixels, labels;

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(labels.size()); }
  // The central part of image `index` as [c, height, width]: (pixel - mean) * scale.
  void read(int64_t index, int64_t height, int64_t width, float mean, float scale, float* to) const;
};

// Code::kNotFound: a file is missing. Code::kData: a file is malformed, the two do not match, or a label is above 9.
Result<LabeledImages> read_images(const std::string& directory, const std::string& name);
Result<> write_images(const std::string& directory, const std::string& name, const LabeledImages& images);

}  // namespace dtrain::gpu
