// Labeled images before augmentation, in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "images/augmentation/stages.h"
#include "images/image.h"
#include "images/open_image.h"

namespace dtrain::data {

// The memory that one thread needs to read images, and the last image that it has read. It is reused for one image
// after another.
class ReadScratch : public images::OpenImage {
 public:
  std::vector<uint8_t> record;       // memory in which a source may keep the bytes of a record
  std::string file;                  // memory in which a source may keep the bytes of a file
  std::vector<float> labels;         // used by a source that reads from another source
  images::Stages* stages = nullptr;  // if not null, the times of `header` and `decode` are added there

  // For each image, a source calls either open() or open_pixels(). open() reads the header of an encoded image, whose
  // bytes must stay unchanged until the next image. Code::kData in the same cases as images::ImageDecoder::open.
  Result<> open(Bytes encoded, int channels);
  // Returns an image of this size for the source to fill.
  images::Image& open_pixels(int height, int width, int channels);

  [[nodiscard]] images::ImageSize size() const override { return size_; }
  [[nodiscard]] int channels() const override { return channels_; }
  Result<images::ImagePart> pixels(const images::Window& wanted) override;
  // Decodes the whole image.
  Result<const images::Image*> decode();

 private:
  images::ImageDecoder decoder_;
  images::Image image_;
  images::ImageSize size_ = {};
  int channels_ = 0;
  bool is_encoded_ = false;
};

// Threads may share a source, each with its own scratch.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  [[nodiscard]] virtual int channels() const = 0;                 // channels of every image
  [[nodiscard]] virtual size_t label_width() const { return 1; }  // number of labels of every image
  // Reads image `index` into `scratch`, and its labels, label_width() of them. The image is decoded only when its
  // pixels are needed. Code::kData with file, place and reason.
  virtual Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const = 0;
  // The size of an image where it is stored; 0 if it is not known.
  [[nodiscard]] virtual int64_t stored_bytes(int64_t /*index*/) const { return 0; }
  // Announces that these images will be read soon, in this order: the source may have the system read them ahead.
  virtual void will_read(std::span<const int64_t> /*images*/) const {}
  // "data/train.rec: record 12 at offset 3456", for messages.
  [[nodiscard]] virtual std::string describe(int64_t index) const = 0;
};

}  // namespace dtrain::data
