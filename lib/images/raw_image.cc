#include "images/raw_image.h"

#include <algorithm>
#include <cstring>
#include <opencv2/imgproc.hpp>

#include "images/image_header.h"
#include "images/mat.h"

namespace dtrain::images {
namespace {

constexpr std::string_view kRawMagic = "DTRW";

int load_u16(const uint8_t* p) {
  return p[0] | p[1] << 8;
}

void store_u16(uint8_t* p, int value) {
  p[0] = static_cast<uint8_t>(value);
  p[1] = static_cast<uint8_t>(value >> 8);
}

// OpenCV's code for changing the number of channels.
int conversion(int from, int to) {
  if (from == 1) return cv::COLOR_GRAY2BGR;
  if (to == 3) return cv::COLOR_BGRA2BGR;
  return from == 3 ? cv::COLOR_BGR2GRAY : cv::COLOR_BGRA2GRAY;
}

}  // namespace

bool is_raw_image(Bytes file) {
  return file.size() >= kRawMagic.size() && std::memcmp(file.data(), kRawMagic.data(), kRawMagic.size()) == 0;
}

Result<RawImage> parse_raw_image(Bytes file) {
  if (!is_raw_image(file)) return fail(Code::kData, "not a raw image: it does not begin with {}", kRawMagic);
  if (file.size() < RawImage::kHeaderBytes) return fail(Code::kData, "raw image: the file ends within its header");
  const uint8_t* const header = file.data();
  RawImage image{.height = load_u16(header + 4),
                 .width = load_u16(header + 6),
                 .channels = header[8],
                 .pixels = file.subspan(RawImage::kHeaderBytes)};
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) {
    return fail(Code::kData, "raw image: the header announces {} channels; it must be 1, 3 or 4", image.channels);
  }
  if (std::ranges::any_of(file.subspan(9, 3), [](uint8_t byte) { return byte != 0; })) {
    return fail(Code::kData, "raw image: bytes 9 to 11 of the header must be zero");
  }
  DT_TRY_VOID(check_image_size("raw image", image.height, image.width));
  const size_t bytes =
      static_cast<size_t>(image.height) * static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  if (image.pixels.size() != bytes) {
    return fail(Code::kData, "raw image: {} x {} x {} pixels need {} bytes, but {} bytes follow the header",
                image.height, image.width, image.channels, bytes, image.pixels.size());
  }
  return image;
}

Result<std::vector<uint8_t>> make_raw_image(const Image& image) {
  if (std::max(image.height, image.width) > RawImage::kEdgeMax) {
    return fail(Code::kData, "an image of {} x {} cannot be stored raw: its width and height may be at most {} pixels",
                image.height, image.width, RawImage::kEdgeMax);
  }
  std::vector<uint8_t> out(RawImage::kHeaderBytes);
  std::ranges::copy(as_bytes(kRawMagic), out.begin());
  store_u16(&out[4], image.height);
  store_u16(&out[6], image.width);
  out[8] = static_cast<uint8_t>(image.channels);
  out.insert(out.end(), image.pixels.begin(), image.pixels.end());
  return out;
}

Result<> copy_raw_image(const RawImage& image, const Window& part, int channels, Image& out) {
  if (channels == 4 && image.channels != 4) {
    return fail(Code::kData, "the image has {} channels, but 4 are needed", image.channels);
  }
  out.resize(part.height, part.width, channels);
  if (image.channels == channels) {
    const size_t row_bytes = static_cast<size_t>(part.width) * static_cast<size_t>(channels);
    for (int y = 0; y < part.height; y++) std::memcpy(out.at(y, 0), image.at(part.y + y, part.x), row_bytes);
    return {};
  }
  const cv::Mat whole(image.height, image.width, CV_8UC(image.channels), const_cast<uint8_t*>(image.pixels.data()));
  cv::Mat target = view(out);
  cv::cvtColor(whole(cv::Rect(part.x, part.y, part.width, part.height)), target, conversion(image.channels, channels));
  return {};
}

}  // namespace dtrain::images
