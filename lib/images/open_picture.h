// A picture whose size is known and whose pixels are decoded when they are asked for.
#pragma once

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

// A part of a picture in memory: `image` has the rows and columns `at` of the picture.
struct PicturePart {
  const Image* image = nullptr;
  Window at = {};
};

class OpenPicture {
 public:
  virtual ~OpenPicture() = default;
  [[nodiscard]] virtual ImageSize size() const = 0;
  [[nodiscard]] virtual int channels() const = 0;
  // Returns at least the part `wanted`, which lies in the picture. It stays valid as long as the picture. May be called
  // once. Code::kData: the file is damaged.
  virtual Result<PicturePart> pixels(const Window& wanted) = 0;
};

// A picture that is in memory as a whole. Borrows it.
class WholePicture : public OpenPicture {
 public:
  explicit WholePicture(const Image& image) : image_(image) {}
  [[nodiscard]] ImageSize size() const override { return image_.size(); }
  [[nodiscard]] int channels() const override { return image_.channels; }
  Result<PicturePart> pixels(const Window& /*wanted*/) override {
    return PicturePart{&image_, whole_picture(image_.size())};
  }

 private:
  const Image& image_;
};

}  // namespace dtrain::images
