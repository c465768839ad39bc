// An image whose size is known, and whose pixels are decoded only when they are needed.
#pragma once

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

// A part of an image, decoded into memory: `image` has only the pixels that lie in the window `at` of the whole image.
struct ImagePart {
  const Image* image = nullptr;
  Window at = {};
};

class OpenImage {
 public:
  virtual ~OpenImage() = default;
  [[nodiscard]] virtual ImageSize size() const = 0;
  [[nodiscard]] virtual int channels() const = 0;
  // Returns at least the part `wanted`, which must lie in the image. The result is valid as long as the image. May be
  // called once. Code::kData: the file is damaged.
  virtual Result<ImagePart> pixels(const Window& wanted) = 0;
};

// An image that is completely in memory. Borrows it.
class WholeImage : public OpenImage {
 public:
  explicit WholeImage(const Image& image) : image_(image) {}
  [[nodiscard]] ImageSize size() const override { return image_.size(); }
  [[nodiscard]] int channels() const override { return image_.channels; }
  Result<ImagePart> pixels(const Window& /*wanted*/) override { return ImagePart{&image_, whole_image(image_.size())}; }

 private:
  const Image& image_;
};

}  // namespace dtrain::images
