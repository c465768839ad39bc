#include "images/raw_picture.h"

#include <algorithm>
#include <cstring>
#include <opencv2/imgproc.hpp>

#include "images/mat.h"
#include "images/picture_header.h"

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

bool is_raw_picture(Bytes file) {
  return file.size() >= kRawMagic.size() && std::memcmp(file.data(), kRawMagic.data(), kRawMagic.size()) == 0;
}

Result<RawPicture> parse_raw_picture(Bytes file) {
  if (!is_raw_picture(file)) return fail(Code::kData, "not a raw picture: it does not begin with {}", kRawMagic);
  if (file.size() < RawPicture::kHeaderBytes) return fail(Code::kData, "raw picture: the file ends within its header");
  const uint8_t* const header = file.data();
  RawPicture picture{.height = load_u16(header + 4),
                     .width = load_u16(header + 6),
                     .channels = header[8],
                     .pixels = file.subspan(RawPicture::kHeaderBytes)};
  if (picture.channels != 1 && picture.channels != 3 && picture.channels != 4) {
    return fail(Code::kData, "raw picture: the header announces {} channels; it must be 1, 3 or 4", picture.channels);
  }
  if (std::ranges::any_of(file.subspan(9, 3), [](uint8_t byte) { return byte != 0; })) {
    return fail(Code::kData, "raw picture: bytes 9 to 11 of the header must be zero");
  }
  DT_TRY_VOID(check_picture_size("raw picture", picture.height, picture.width));
  const size_t bytes =
      static_cast<size_t>(picture.height) * static_cast<size_t>(picture.width) * static_cast<size_t>(picture.channels);
  if (picture.pixels.size() != bytes) {
    return fail(Code::kData, "raw picture: {} x {} x {} pixels are {} bytes, but {} follow the header", picture.height,
                picture.width, picture.channels, bytes, picture.pixels.size());
  }
  return picture;
}

Result<std::vector<uint8_t>> make_raw_picture(const Image& image) {
  if (std::max(image.height, image.width) > RawPicture::kEdgeMax) {
    return fail(Code::kData, "an image of {} x {} cannot be stored raw: an edge may have at most {} pixels",
                image.height, image.width, RawPicture::kEdgeMax);
  }
  std::vector<uint8_t> out(RawPicture::kHeaderBytes);
  std::ranges::copy(as_bytes(kRawMagic), out.begin());
  store_u16(&out[4], image.height);
  store_u16(&out[6], image.width);
  out[8] = static_cast<uint8_t>(image.channels);
  out.insert(out.end(), image.pixels.begin(), image.pixels.end());
  return out;
}

Result<> copy_raw_picture(const RawPicture& picture, const Window& part, int channels, Image& out) {
  if (channels == 4 && picture.channels != 4) {
    return fail(Code::kData, "the image has {} channels, but 4 are needed", picture.channels);
  }
  out.resize(part.height, part.width, channels);
  if (picture.channels == channels) {
    const size_t row_bytes = static_cast<size_t>(part.width) * static_cast<size_t>(channels);
    for (int y = 0; y < part.height; y++) std::memcpy(out.at(y, 0), picture.at(part.y + y, part.x), row_bytes);
    return {};
  }
  const cv::Mat whole(picture.height, picture.width, CV_8UC(picture.channels),
                      const_cast<uint8_t*>(picture.pixels.data()));
  cv::Mat target = view(out);
  cv::cvtColor(whole(cv::Rect(part.x, part.y, part.width, part.height)), target,
               conversion(picture.channels, channels));
  return {};
}

}  // namespace dtrain::images
