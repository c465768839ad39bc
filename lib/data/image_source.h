// Labeled pictures before augmentation, in a fixed order.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "data/image.h"

namespace dtrain::data {

// What one thread needs to read pictures; reused for one picture after another.
struct ReadScratch {
  std::vector<uint8_t> record;
  ImageDecoder decoder;
  Image image;
};

// Threads may share a source, each with its own scratch.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  [[nodiscard]] virtual int channels() const = 0;  // of every picture
  // Reads picture `index` into scratch.image and returns its label. Code::kData with file, place and reason.
  virtual Result<float> read(int64_t index, ReadScratch& scratch) const = 0;
  // "data/train.rec: record 12 at offset 3456", for messages.
  [[nodiscard]] virtual std::string describe(int64_t index) const = 0;
};

}  // namespace dtrain::data
