#include "data/sources/image_source.h"

namespace dtrain::data {

Result<> ReadScratch::open(Bytes encoded, int channels) {
  const StageTimer timer(stages == nullptr ? nullptr : &stages->header);
  DT_TRY(size_, decoder_.open(encoded, channels));
  channels_ = channels;
  is_encoded_ = true;
  kept_ = nullptr;
  return {};
}

Image& ReadScratch::open_pixels(int height, int width, int channels) {
  image_.resize(height, width, channels);
  size_ = {height, width};
  channels_ = channels;
  is_encoded_ = false;
  kept_ = nullptr;
  return image_;
}

void ReadScratch::open_image(const Image& image) {
  size_ = {image.height, image.width};
  channels_ = image.channels;
  is_encoded_ = false;
  kept_ = &image;
}

bool ReadScratch::shrink(int divisor) {
  if (!is_encoded_) return false;
  const ImageSize before = size_;
  size_ = decoder_.shrink(divisor);
  return size_ != before;
}

Result<PicturePart> ReadScratch::pixels(const Window& wanted) {
  const Image& image = kept_ != nullptr ? *kept_ : image_;
  PicturePart part{&image, whole_picture(image.size())};
  if (!is_encoded_) return part;
  const StageTimer timer(stages == nullptr ? nullptr : &stages->decode);
  DT_TRY(part.at, decoder_.read(wanted, image_));
  return part;
}

Result<const Image*> ReadScratch::decode() {
  DT_TRY(const PicturePart part, pixels(whole_picture(size_)));
  return part.image;
}

}  // namespace dtrain::data
