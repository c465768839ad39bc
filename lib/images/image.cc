#include "images/image.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "images/image_header.h"
#include "images/jpeg.h"
#include "images/jpeg_encoder.h"
#include "images/mat.h"
#include "images/orientation.h"
#include "images/png.h"
#include "images/raw_image.h"

namespace dtrain::images {
namespace {

Result<> decode_png_into(Bytes file, PngColors colors, Image& out) {
  return decode_png(file, colors, [&out](const PngLayout& layout) {
    out.resize(layout.height, layout.width, layout.channels);
    return out.pixels.data();
  });
}

}  // namespace

struct ImageDecoder::State {
  JpegDecoder jpeg;
  // The image that open() has opened.
  Bytes file;
  int channels = 0;
  Orientation orientation;
  ImageSize size = {};  // size of the upright image
  Image stored;         // memory for pixels before they are turned
};

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

Result<> ImageDecoder::decode(Bytes file, int channels, Image& out) {
  DT_TRY(const ImageSize size, open(file, channels));
  DT_TRY_VOID(read(whole_image(size), out));
  return {};
}

Result<ImageSize> ImageDecoder::open(Bytes file, int channels) {
  State& state = *state_;
  state.file = file;
  state.channels = channels;
  state.orientation = channels == 4 ? Orientation() : read_orientation(file);
  if (is_jpeg(file)) {
    DT_TRY(state.size, state.jpeg.open(file, channels == 4 ? 0 : channels));
  } else {
    DT_TRY(const ImageHeader header, read_image_header(file));
    DT_TRY_VOID(check_image_size(header.format, header.height, header.width));
    DT_TRY_VOID(check_decoding_bytes(header.format, header.height * header.width * channels));
    state.size = {header.height, header.width};
  }
  state.size = state.orientation.turned(state.size);
  return state.size;
}

Result<Window> ImageDecoder::read(const Window& wanted, Image& out) {
  const Orientation& orientation = state_->orientation;
  if (!orientation.turns()) return read_stored(wanted, out);
  DT_TRY_VOID(check_decoding_bytes("turned", int64_t{2} * wanted.height * wanted.width * state_->channels));
  Image& stored = state_->stored;
  DT_TRY(const Window part, read_stored(orientation.stored_part(wanted, state_->size), stored));
  orientation.turn(stored, out);
  return orientation.turned_part(part, state_->size);
}

// Reads a part of the stored image, before it is turned. `wanted` is in the coordinates of the stored image.
Result<Window> ImageDecoder::read_stored(const Window& wanted, Image& out) {
  const Bytes file = state_->file;
  const int channels = state_->channels;
  Window part;
  if (is_jpeg(file)) {
    DT_TRY(part, state_->jpeg.read(wanted, out));
  } else if (is_raw_image(file)) {
    DT_TRY(const RawImage raw, parse_raw_image(file));
    DT_TRY_VOID(copy_raw_image(raw, wanted, channels, out));
    part = wanted;
  } else {
    DT_TRY_VOID(channels == 4 ? decode_as_stored(file, out)
                              : decode_png_into(file, channels == 1 ? PngColors::kGray : PngColors::kColor, out));
    part = whole_image(out.size());
  }
  if (out.channels != channels) {
    return fail(Code::kData, "the image has {} channels, but {} are needed", out.channels, channels);
  }
  return part;
}

Result<> ImageDecoder::decode_as_stored(Bytes file, Image& out) {
  if (is_jpeg(file)) {
    DT_TRY(const ImageSize size, state_->jpeg.open(file, 0));
    DT_TRY_VOID(state_->jpeg.read(whole_image(size), out));
    return {};
  }
  DT_TRY(const ImageHeader header, read_image_header(file));
  DT_TRY_VOID(check_image_size(header.format, header.height, header.width));
  if (is_raw_image(file)) {
    DT_TRY(const RawImage raw, parse_raw_image(file));
    return copy_raw_image(raw, whole_image({header.height, header.width}), raw.channels, out);
  }
  if (header.bits > 8) {
    return fail(Code::kData, "{}: the image has {} bits per channel; only images with 8 can keep their stored colors",
                header.format, header.bits);
  }
  DT_TRY_VOID(check_decoding_bytes(header.format, header.height * header.width * 4));
  return decode_png_into(file, PngColors::kAsStored, out);
}

Interpolation choose(Interpolation method, ImageSize from, ImageSize to, RandomStream& random) {
  if (method == Interpolation::kRandom) return static_cast<Interpolation>(random.below(5));
  if (method != Interpolation::kAuto) return method;
  if (to.height > from.height && to.width > from.width) return Interpolation::kCubic;
  if (to.height < from.height && to.width < from.width) return Interpolation::kArea;
  return Interpolation::kBilinear;
}

Result<> resize_image(const Image& in, int64_t height, int64_t width, Image& out, Interpolation method) {
  DT_TRY_VOID(check_image_size("resized", height, width), "resizing an image of {} x {}", in.height, in.width);
  out.resize(static_cast<int>(height), static_cast<int>(width), in.channels);
  cv::Mat target = view(out);
  try {
    cv::resize(view(in), target, target.size(), 0, 0, static_cast<int>(method));
  } catch (const cv::Exception& e) {
    return fail(Code::kData, "{}", e.err);
  }
  return {};
}

ImageSize size_of_shorter_edge(ImageSize size, int64_t edge) {
  if (size.height > size.width) return {edge * size.height / size.width, edge};
  return {edge, edge * size.width / size.height};
}

namespace {

// The edge length from which a crop is cut: 256 for a crop of 224.
int64_t edge_before_crop(int64_t crop) {
  return (2 * crop * 256 + 224) / (2 * 224);
}

ImageSize size_to_fit(const ImageSize& from, const ImageSize& crop) {
  // The relevant edge is the one of which the crop cuts off less.
  const bool by_height = crop.height * from.width >= crop.width * from.height;
  const int64_t edge = by_height ? from.height : from.width, cut = by_height ? crop.height : crop.width;
  const int64_t to = std::clamp(edge, cut, edge_before_crop(cut));
  if (to == edge) return from;
  const auto scaled = [&](int64_t other, int64_t least) { return std::max(other * to / edge, least); };
  return by_height ? ImageSize{to, scaled(from.width, crop.width)} : ImageSize{scaled(from.height, crop.height), to};
}

}  // namespace

FirstResize first_resize(int resize, Interpolation method, const ImageSize& from, const ImageSize& crop) {
  if (resize == kKeepSize) return {from, method};
  if (resize != kFitCrop) return {size_of_shorter_edge(from, resize), method};
  const ImageSize to = size_to_fit(from, crop);
  const bool reduces = to.height < from.height || to.width < from.width;
  return {to, reduces && method == Interpolation::kBilinear ? Interpolation::kArea : method};
}

Window central_square(const ImageSize& size) {
  const auto edge = std::min(size.height, size.width);
  return {.y = static_cast<int>((size.height - edge) / 2),
          .x = static_cast<int>((size.width - edge) / 2),
          .height = static_cast<int>(edge),
          .width = static_cast<int>(edge)};
}

Image central_square(const Image& image) {
  Image out;
  cut(image, whole_image(image.size()), central_square(image.size()), out);
  return out;
}

void cut(const Image& image, const Window& part, const Window& wanted, Image& out) {
  out.resize(wanted.height, wanted.width, image.channels);
  for (int y = 0; y < wanted.height; y++) {
    const uint8_t* from = image.at(wanted.y - part.y + y, wanted.x - part.x);
    std::copy(from, from + static_cast<ptrdiff_t>(wanted.width) * image.channels, out.at(y, 0));
  }
}

Result<std::vector<uint8_t>> encode_image(const Image& image, const std::string& extension, int quality) {
  if (extension == ".png") {
    return encode_png(image.pixels.data(),
                      {.height = image.height, .width = image.width, .channels = image.channels, .bits = 8}, quality);
  }
  DT_CHECK(extension == ".jpg", "images cannot be encoded as '{}'", extension);
  std::vector<uint8_t> out;
  DT_TRY_VOID(JpegEncoder().encode(image, {.quality = quality}, out));
  return out;
}

void use_own_threads_only() {
  cv::setNumThreads(1);
}

}  // namespace dtrain::images
