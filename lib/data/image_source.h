// Labeled pictures before augmentation, in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/image.h"

namespace dtrain::data {

// What one thread needs to read pictures; reused for one picture after another.
struct ReadScratch {
  std::vector<uint8_t> record;
  ImageDecoder decoder;
  Image image;
  std::vector<float> labels;  // of a source that reads from another one
};

// Threads may share a source, each with its own scratch.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  [[nodiscard]] virtual int channels() const = 0;                 // of every picture
  [[nodiscard]] virtual size_t label_width() const { return 1; }  // labels of every picture
  // Reads picture `index` into scratch.image, and its labels, label_width() of them. Code::kData with file, place and
  // reason.
  virtual Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const = 0;
  // "data/train.rec: record 12 at offset 3456", for messages.
  [[nodiscard]] virtual std::string describe(int64_t index) const = 0;
};

}  // namespace dtrain::data
