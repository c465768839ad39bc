#include "data/image_source.h"

namespace dtrain::data {

Result<> ReadScratch::open(Bytes encoded, int channels) {
  const StageTimer timer(stages == nullptr ? nullptr : &stages->header);
  DT_TRY(size_, decoder_.open(encoded, channels));
  channels_ = channels;
  is_encoded_ = true;
  return {};
}

Image& ReadScratch::open_pixels(int height, int width, int channels) {
  image_.resize(height, width, channels);
  size_ = {height, width};
  channels_ = channels;
  is_encoded_ = false;
  return image_;
}

Result<PicturePart> ReadScratch::pixels(const Window& wanted) {
  PicturePart part{&image_, {.height = image_.height, .width = image_.width}};
  if (!is_encoded_) return part;
  const StageTimer timer(stages == nullptr ? nullptr : &stages->decode);
  DT_TRY(part.at, decoder_.read(wanted, image_));
  return part;
}

Result<const Image*> ReadScratch::decode() {
  const Window whole{.height = static_cast<int>(size_.height), .width = static_cast<int>(size_.width)};
  DT_TRY(const PicturePart part, pixels(whole));
  return part.image;
}

}  // namespace dtrain::data
