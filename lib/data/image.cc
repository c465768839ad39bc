#include "data/image.h"

#include <algorithm>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "data/jpeg.h"

namespace dtrain::data {
namespace {

cv::Mat view(const Image& image) {
  return {image.height, image.width, CV_8UC(image.channels), const_cast<uint8_t*>(image.pixels.data())};
}

uint32_t load_big_u32(const uint8_t* p) {
  return __builtin_bswap32(load_u32(p));
}

// PNG says its size in its first bytes: looked at before OpenCV takes memory for it.
bool is_huge_png(Bytes file) {
  constexpr uint8_t kSignature[] = {0x89, 'P', 'N', 'G'};
  if (file.size() < 24 || !std::equal(std::begin(kSignature), std::end(kSignature), file.begin())) return false;
  return uint64_t{load_big_u32(file.data() + 16)} * load_big_u32(file.data() + 20) > uint64_t{ImageDecoder::kPixelsMax};
}

int opencv_flag(int color) {
  if (color < 0) return cv::IMREAD_UNCHANGED;
  return (color == 0 ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR) | cv::IMREAD_IGNORE_ORIENTATION;
}

}  // namespace

Result<> decode_with_opencv(Bytes file, int color, Image& out) {
  if (file.empty()) return fail(Code::kData, "no image: 0 bytes");
  if (is_huge_png(file)) return fail(Code::kData, "PNG: too many pixels");
  try {
    const cv::Mat encoded(1, static_cast<int>(file.size()), CV_8U, const_cast<uint8_t*>(file.data()));
    const cv::Mat decoded = cv::imdecode(encoded, opencv_flag(color));
    if (decoded.empty()) return fail(Code::kData, "not an image that can be decoded ({} bytes)", file.size());
    if (decoded.depth() != CV_8U) return fail(Code::kData, "an image of more than 8 bits a channel");
    out.resize(decoded.rows, decoded.cols, decoded.channels());
    decoded.copyTo(view(out));
    return {};
  } catch (const cv::Exception& e) {
    return fail(Code::kData, "{}", e.err);
  }
}

class ImageDecoder::Jpeg : public JpegDecoder {};

ImageDecoder::ImageDecoder() : jpeg_(std::make_unique<Jpeg>()) {}
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

Result<> ImageDecoder::decode(Bytes file, int channels, Image& out) {
  if (channels != 4 && is_jpeg(file)) {
    DT_TRY(const JpegDecoder::Outcome outcome, jpeg_->decode(file, channels, out));
    if (outcome == JpegDecoder::Outcome::kDecoded) return {};
  }
  DT_TRY_VOID(decode_with_opencv(file, channels == 4 ? -1 : channels == 1 ? 0 : 1, out));
  if (out.channels != channels)
    return fail(Code::kData, "an image of {} channels where {} are needed", out.channels, channels);
  return {};
}

void resize_image(const Image& in, int height, int width, Image& out) {
  out.resize(height, width, in.channels);
  cv::Mat target = view(out);
  cv::resize(view(in), target, target.size(), 0, 0, cv::INTER_LINEAR);
}

Result<Image> resize_shorter_edge(Image image, int edge) {
  const int shorter = std::min(image.height, image.width);
  if (shorter == edge) return image;
  const int64_t longer = int64_t{std::max(image.height, image.width)} * edge / shorter;
  if (longer * edge > ImageDecoder::kPixelsMax)
    return fail(Code::kData, "resized it would have {} x {} pixels", edge, longer);
  const bool tall = image.height > image.width;
  Image out;
  resize_image(image, tall ? static_cast<int>(longer) : edge, tall ? edge : static_cast<int>(longer), out);
  return out;
}

Image central_square(const Image& image) {
  const int edge = std::min(image.height, image.width);
  Image out;
  out.resize(edge, edge, image.channels);
  for (int y = 0; y < edge; y++) {
    const uint8_t* from = image.at(y + (image.height - edge) / 2, (image.width - edge) / 2);
    std::copy(from, from + static_cast<ptrdiff_t>(edge) * image.channels, out.at(y, 0));
  }
  return out;
}

Result<std::vector<uint8_t>> encode_image(const Image& image, const std::string& extension, int quality) {
  const bool png = extension == ".png";
  const int value = png && quality > 9 ? 3 : quality;
  std::vector<uint8_t> out;
  try {
    if (cv::imencode(extension, view(image), out,
                     {png ? cv::IMWRITE_PNG_COMPRESSION : cv::IMWRITE_JPEG_QUALITY, value})) {
      return out;
    }
  } catch (const cv::Exception& e) {
    return fail(Code::kData, "{}", e.err);
  }
  return fail(Code::kData, "cannot be encoded as '{}'", extension);
}

void use_own_threads_only() {
  cv::setNumThreads(1);
}

}  // namespace dtrain::data
