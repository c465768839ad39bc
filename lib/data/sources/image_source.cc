#include "data/sources/image_source.h"

namespace dtrain::data {

Result<> ReadScratch::open(Bytes encoded, int channels) {
  const images::StageTimer timer(stages == nullptr ? nullptr : &stages->header);
  DT_TRY(size_, decoder_.open(encoded, channels));
  channels_ = channels;
  is_encoded_ = true;
  kept_ = nullptr;
  return {};
}

images::Image& ReadScratch::open_pixels(int height, int width, int channels) {
  image_.resize(height, width, channels);
  size_ = {height, width};
  channels_ = channels;
  is_encoded_ = false;
  kept_ = nullptr;
  return image_;
}

void ReadScratch::open_image(const images::Image& image) {
  size_ = {image.height, image.width};
  channels_ = image.channels;
  is_encoded_ = false;
  kept_ = &image;
}

bool ReadScratch::shrink(int divisor) {
  if (!is_encoded_) return false;
  const images::ImageSize before = size_;
  size_ = decoder_.shrink(divisor);
  return size_ != before;
}

Result<images::PicturePart> ReadScratch::pixels(const images::Window& wanted) {
  const images::Image& image = kept_ != nullptr ? *kept_ : image_;
  images::PicturePart part{&image, images::whole_picture(image.size())};
  if (!is_encoded_) return part;
  const images::StageTimer timer(stages == nullptr ? nullptr : &stages->decode);
  DT_TRY(part.at, decoder_.read(wanted, image_));
  return part;
}

Result<const images::Image*> ReadScratch::decode() {
  DT_TRY(const images::PicturePart part, pixels(images::whole_picture(size_)));
  return part.image;
}

}  // namespace dtrain::data
