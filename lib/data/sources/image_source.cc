#include "data/sources/image_source.h"

namespace dtrain::data {

Result<> ReadScratch::open(Bytes encoded, int channels) {
  const images::StageTimer timer(stages == nullptr ? nullptr : &stages->header);
  DT_TRY(size_, decoder_.open(encoded, channels));
  channels_ = channels;
  is_encoded_ = true;
  return {};
}

images::Image& ReadScratch::open_pixels(int height, int width, int channels) {
  image_.resize(height, width, channels);
  size_ = {height, width};
  channels_ = channels;
  is_encoded_ = false;
  return image_;
}

Result<images::ImagePart> ReadScratch::pixels(const images::Window& wanted) {
  images::ImagePart part{&image_, images::whole_image(image_.size())};
  if (!is_encoded_) return part;
  const images::StageTimer timer(stages == nullptr ? nullptr : &stages->decode);
  DT_TRY(part.at, decoder_.read(wanted, image_));
  return part;
}

Result<const images::Image*> ReadScratch::decode() {
  DT_TRY(const images::ImagePart part, pixels(images::whole_image(size_)));
  return part.image;
}

}  // namespace dtrain::data
