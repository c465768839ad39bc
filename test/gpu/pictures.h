// Labelled pictures in two idx files, the form in which MNIST is handed out, uncompressed: big-endian 32-bit numbers (a
// magic 0x0800 + the number of dimensions; the dimensions), then a byte a value. NAME-images.idx has the dimensions
// [pictures, height, width] or [pictures, channels, height, width], NAME-labels.idx [pictures].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain::gpu {

struct Pictures {
  Shape shape;  // [channels, height, width]
  std::vector<uint8_t> pixels, labels;

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(labels.size()); }
  // The central part of picture `index` as [c, height, width]: (pixel - mean) * scale.
  void read(int64_t index, int64_t height, int64_t width, float mean, float scale, float* to) const;
};

// Code::kNotFound; kData if the files are not of the form, do not belong together or have a label above 9.
Result<Pictures> read_pictures(const std::string& folder, const std::string& name);
Result<> write_pictures(const std::string& folder, const std::string& name, const Pictures& pictures);

}  // namespace dtrain::gpu
