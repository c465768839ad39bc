#include "data/pictures/image.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "data/pictures/jpeg.h"
#include "data/pictures/mat.h"
#include "data/pictures/orientation.h"
#include "data/pictures/picture_header.h"
#include "data/pictures/raw_picture.h"

namespace dtrain::data {
namespace {

int opencv_flag(int color) {
  if (color < 0) return cv::IMREAD_UNCHANGED;
  return (color == 0 ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR) | cv::IMREAD_IGNORE_ORIENTATION;
}

// OpenCV 4.6 prints what is wrong with a file to std::cerr, whatever its own logging is set to, and its libpng prints to
// stderr. The user is told by the returned error instead, which names the record's file and place.
thread_local bool is_decoding = false;

// A filter in front of std::cerr's target that drops what a thread writes while it decodes.
class QuietWhileDecoding final : public std::streambuf {
 public:
  explicit QuietWhileDecoding(std::streambuf* target) : target_(target) {}

 protected:
  int_type overflow(int_type c) override {
    if (is_decoding || traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    return target_->sputc(traits_type::to_char_type(c));
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    return is_decoding ? count : target_->sputn(text, count);
  }
  int sync() override { return target_->pubsync(); }

 private:
  std::streambuf* target_;
};

ssize_t write_unless_decoding(void* /*cookie*/, const char* text, size_t size) {
  return is_decoding ? static_cast<ssize_t>(size) : std::max<ssize_t>(::write(STDERR_FILENO, text, size), 0);
}

// Takes the place of stderr, which is a variable in glibc, and drops what a thread writes while it decodes.
std::FILE* stderr_quiet_while_decoding() {
  std::FILE* quiet = ::fopencookie(nullptr, "w", {.read = {}, .write = write_unless_decoding, .seek = {}, .close = {}});
  if (quiet == nullptr) return stderr;
  std::setvbuf(quiet, nullptr, _IONBF, 0);
  return quiet;
}

// Lives from the first picture to the end of the process, so that both streams always have a target.
void make_stderr_quiet_while_decoding() {
  static const bool installed = [] {
    std::cerr.rdbuf(new QuietWhileDecoding(std::cerr.rdbuf()));
    stderr = stderr_quiet_while_decoding();
    return true;
  }();
  (void)installed;
}

struct Decoding {
  Decoding() {
    make_stderr_quiet_while_decoding();
    is_decoding = true;
  }
  ~Decoding() { is_decoding = false; }
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;
};

}  // namespace

Result<> decode_with_opencv(Bytes file, int color, Image& out) {
  if (file.empty()) return fail(Code::kData, "the image is empty (0 bytes)");
  if (has_cut_png_chunk(file)) {
    return fail(Code::kData, "the image is damaged and cannot be decoded ({} bytes)", file.size());
  }
  const Decoding quiet;
  try {
    const cv::Mat encoded(1, static_cast<int>(file.size()), CV_8U, const_cast<uint8_t*>(file.data()));
    const cv::Mat decoded = cv::imdecode(encoded, opencv_flag(color));
    if (decoded.empty()) return fail(Code::kData, "the image is damaged and cannot be decoded ({} bytes)", file.size());
    if (decoded.depth() != CV_8U) return fail(Code::kData, "the image has more than 8 bits per channel");
    out.resize(decoded.rows, decoded.cols, decoded.channels());
    decoded.copyTo(view(out));
    return {};
  } catch (const cv::Exception& e) {
    return fail(Code::kData, "{}", e.err);
  }
}

struct ImageDecoder::State {
  JpegDecoder jpeg;
  // The opened picture.
  Bytes file;
  int channels = 0;
  Orientation orientation;
  ImageSize size = {};  // after turning
  Image stored;         // memory for pixels that are to be turned
};

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

Result<> ImageDecoder::decode(Bytes file, int channels, Image& out) {
  DT_TRY(const ImageSize size, open(file, channels));
  DT_TRY_VOID(read(whole_picture(size), out));
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
    DT_TRY(const PictureHeader header, read_picture_header(file));
    DT_TRY_VOID(check_picture_size(header.format, header.height, header.width));
    // OpenCV decodes into memory of its own, which is then copied.
    const int copies = is_raw_picture(file) ? 1 : 2;
    DT_TRY_VOID(check_decoding_bytes(header.format, copies * header.height * header.width * channels));
    state.size = {header.height, header.width};
  }
  state.size = state.orientation.turned(state.size);
  return state.size;
}

ImageSize ImageDecoder::shrink(int divisor) {
  if (is_jpeg(state_->file)) state_->size = state_->orientation.turned(state_->jpeg.shrink(divisor));
  return state_->size;
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

// The part is one of the picture before it is turned.
Result<Window> ImageDecoder::read_stored(const Window& wanted, Image& out) {
  const Bytes file = state_->file;
  const int channels = state_->channels;
  Window part;
  if (is_jpeg(file)) {
    DT_TRY(part, state_->jpeg.read(wanted, out));
  } else if (is_raw_picture(file)) {
    DT_TRY(const RawPicture raw, parse_raw_picture(file));
    DT_TRY_VOID(copy_raw_picture(raw, wanted, channels, out));
    part = wanted;
  } else {
    DT_TRY_VOID(channels == 4 ? decode_as_stored(file, out) : decode_with_opencv(file, channels == 1 ? 0 : 1, out));
    part = whole_picture(out.size());
  }
  if (out.channels != channels) {
    return fail(Code::kData, "the image has {} channels, but {} are needed", out.channels, channels);
  }
  return part;
}

Result<> ImageDecoder::decode_as_stored(Bytes file, Image& out) {
  if (is_jpeg(file)) {
    DT_TRY(const ImageSize size, state_->jpeg.open(file, 0));
    DT_TRY_VOID(state_->jpeg.read(whole_picture(size), out));
    return {};
  }
  DT_TRY(const PictureHeader header, read_picture_header(file));
  DT_TRY_VOID(check_picture_size(header.format, header.height, header.width));
  if (is_raw_picture(file)) {
    DT_TRY(const RawPicture raw, parse_raw_picture(file));
    return copy_raw_picture(raw, whole_picture({header.height, header.width}), raw.channels, out);
  }
  if (header.bits > 8) {
    return fail(Code::kData, "{}: the image has {} bits per channel; only images with 8 can keep their stored colors",
                header.format, header.bits);
  }
  DT_TRY_VOID(check_decoding_bytes(header.format, 2 * header.height * header.width * 4));
  return decode_with_opencv(file, -1, out);
}

Interpolation choose(Interpolation method, ImageSize from, ImageSize to, RandomStream& random) {
  if (method == Interpolation::kRandom) return static_cast<Interpolation>(random.below(5));
  if (method != Interpolation::kAuto) return method;
  if (to.height > from.height && to.width > from.width) return Interpolation::kCubic;
  if (to.height < from.height && to.width < from.width) return Interpolation::kArea;
  return Interpolation::kBilinear;
}

int divisor_before_resize(const ImageSize& from, const ImageSize& to) {
  for (const int divisor : {8, 4, 2}) {
    if (from.height >= divisor * to.height && from.width >= divisor * to.width) return divisor;
  }
  return 1;
}

Result<> resize_image(const Image& in, int64_t height, int64_t width, Image& out, Interpolation method) {
  DT_TRY_VOID(check_picture_size("resized", height, width), "resizing an image of {} x {}", in.height, in.width);
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

Result<Image> resize_shorter_edge(Image image, int edge) {
  if (std::min(image.height, image.width) == edge) return image;
  const ImageSize size = size_of_shorter_edge({image.height, image.width}, edge);
  Image out;
  DT_TRY_VOID(resize_image(image, size.height, size.width, out));
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
  return fail(Code::kData, "the image cannot be encoded as '{}'", extension);
}

void use_own_threads_only() {
  make_stderr_quiet_while_decoding();
  cv::setNumThreads(1);
}

}  // namespace dtrain::data
