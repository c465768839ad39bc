#include "dataset/packing/image_packer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "data/records/image_record.h"
#include "images/deep_png.h"
#include "images/image_header.h"
#include "images/jpeg.h"
#include "images/png.h"
#include "images/raw_image.h"

namespace dtrain::dataset {
namespace {

constexpr int kQualityDefault = 95;

Result<> check_ranges(const PackOptions& options) {
  if (options.color < -1 || options.color > 1) return fail(Code::kUsage, "color {}: must be 1, 0 or -1", options.color);
  if (const std::string encoding = options.encoding_or_default(); encoding != ".jpg" && encoding != ".png") {
    return fail(Code::kUsage, "encoding '{}': must be .jpg or .png", encoding);
  }
  if (const int quality = options.quality.value_or(0); quality < 0 || quality > 100) {
    return fail(Code::kUsage, "quality {}: must be from 0 to 100", quality);
  }
  constexpr int kEdgeMax = 16384;
  if (options.resize < 0 || options.resize > kEdgeMax) {
    return fail(Code::kUsage, "resize {}: must be from 0 (off) to {}", options.resize, kEdgeMax);
  }
  const int method = options.inter_method;
  if (method < 0 || (method > 4 && method != 9 && method != 10)) {
    return fail(Code::kUsage,
                "inter-method {}: must be 0 (nearest), 1 (bilinear), 2 (cubic), 3 (area), 4 (Lanczos), 9 (chosen by "
                "size) or 10 (random)",
                method);
  }
  if (options.threads < 1) return fail(Code::kUsage, "{} threads: must be at least 1", options.threads);
  if (options.restart_interval < 0 || options.restart_interval > kEdgeMax) {
    return fail(Code::kUsage, "restart-interval {}: must be from 0 (off) to {}", options.restart_interval, kEdgeMax);
  }
  return {};
}

bool changes_images(const PackOptions& options) {
  return options.resize > 0 || options.center_crop || options.color != PackOptions().color ||
         options.inter_method != PackOptions().inter_method || options.quality || options.encoding;
}

}  // namespace

Result<> check(const PackOptions& options) {
  DT_TRY_VOID(check_ranges(options));
  if (options.pass_through && changes_images(options)) {
    return fail(
        Code::kUsage,
        "--pass-through (unchanged=1) packs the files unchanged: it cannot be combined with resize, inter-method, "
        "center-crop, color, quality or encoding");
  }
  if (options.raw && (options.pass_through || options.quality || options.encoding || options.restart_interval > 0)) {
    return fail(Code::kUsage,
                "--raw stores pixels without encoding them: it cannot be combined with pass-through, quality, encoding "
                "or restart-interval");
  }
  if (options.restart_interval > 0 && options.encoding_or_default() != ".jpg") {
    return fail(Code::kUsage, "--restart-interval is for JPEG: it cannot be combined with encoding {}",
                *options.encoding);
  }
  return {};
}

std::string settings_text(const PackOptions& options) {
  return fmt::format(
      "color={} center_crop={:d} resize={} inter_method={} encoding={} quality={} unchanged={:d} restart_interval={} "
      "raw={:d} pack_label={:d} label_in_header={:d}",
      options.color, options.center_crop, options.resize, options.inter_method, options.encoding_or_default(),
      options.quality.value_or(kQualityDefault), options.pass_through, options.restart_interval, options.raw,
      options.pack_label, options.label_in_header);
}

namespace {

// The interpolation method for an image. The method for `kRandom` depends on the image's position in the list, so that
// the number of threads does not matter.
images::Interpolation method_for(const PackOptions& options, images::ImageSize from, images::ImageSize to,
                                 size_t place) {
  RandomStream random(0, Use::kAugment, place);
  return choose(static_cast<images::Interpolation>(options.inter_method), from, to, random);
}

// How an image of this size must be cropped, resized and converted.
Result<images::PngChange> change_of(const PackOptions& options, images::ImageSize whole, size_t place) {
  images::PngChange change{.cut = options.center_crop ? images::central_square(whole) : images::whole_image(whole)};
  change.size = {change.cut.height, change.cut.width};
  if (options.resize == 0 || std::min(change.cut.height, change.cut.width) == options.resize) return change;
  const images::ImageSize from = change.size;
  change.size = images::size_of_shorter_edge(from, options.resize);
  DT_TRY_VOID(images::check_image_size("resized", change.size.height, change.size.width));
  change.method = method_for(options, from, change.size, place);
  return change;
}

// Appends the content of a file to `out`: a regular file is read directly into it, another file with read_file().
// Code::kDevice means a disk fault, and does not mean that the image is broken.
Result<> append_file(const std::string& path, const data::FileCalls& calls, const Log& log, std::vector<uint8_t>& out) {
  const size_t begin = out.size();
  struct stat status {};
  // A pipe must be opened only once, because its writer would not notice a second reader.
  const bool is_special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (is_special) {
    DT_TRY(const std::string file, read_file(path, kDataBytesMax));
    out.insert(out.end(), file.begin(), file.end());
  } else {
    DT_TRY(const auto file, data::RetryingFile::open(path, log, calls));
    out.resize(begin + static_cast<size_t>(file->size()));
    DT_TRY_VOID(file->read_at(0, std::span(out).subspan(begin)));
  }
  if (out.size() == begin) return fail(Code::kData, "{}: the file is empty", path);
  return {};
}

bool has_more_than_8_bits(Bytes file) {
  if (images::is_jpeg(file)) return false;
  const Result<images::ImageHeader> header = images::read_image_header(file);
  return header && header->bits > 8;
}

}  // namespace

std::string ImageDirectory::path_of(const data::ListEntry& entry) const {
  if (entry.path.starts_with('/')) return entry.path;
  return root.empty() || root.ends_with('/') ? root + entry.path : root + '/' + entry.path;
}

Result<> ImagePacker::pack(const data::ListEntry& entry, size_t place, std::vector<uint8_t>& payload) {
  const std::string path = source_.path_of(entry);
  payload.clear();
  const std::span<const float> labels(entry.labels.data(), options_.pack_label ? entry.labels.size() : 1);
  data::append_image_record(payload, entry.id, labels, {});
  if (labels.size() > 1 && !options_.label_in_header) store_u32(payload.data() + 4, 0);
  if (!source_.read && options_.copies_files()) return append_file(path, source_.calls, log_, payload);
  if (source_.read) {
    DT_TRY(const std::string file, source_.read(entry));
    if (file.empty()) return fail(Code::kData, "{}: the file is empty", path);
    DT_TRY_VOID(append_image(as_bytes(file), place, payload), "packing '{}'", path);
    return {};
  }
  file_.clear();
  DT_TRY_VOID(append_file(path, source_.calls, log_, file_));
  DT_TRY_VOID(append_image(file_, place, payload), "packing '{}'", path);
  return {};
}

Result<> ImagePacker::append_image(Bytes file, size_t place, std::vector<uint8_t>& payload) {
  if (options_.pass_through) {
    if (options_.restart_interval > 0 && images::is_jpeg(file))
      return encoder_.add_restarts(file, options_.restart_interval, payload);
    payload.insert(payload.end(), file.begin(), file.end());
    return {};
  }
  if (options_.color < 0 && has_more_than_8_bits(file)) return append_deep_image(file, place, payload);
  DT_TRY_VOID(decode(file));
  DT_TRY_VOID(resize(place));
  return encode(payload);
}

// Decodes the image into image_; only the part that is needed, where that is possible.
Result<> ImagePacker::decode(Bytes file) {
  if (options_.color < 0) {
    DT_TRY_VOID(decoder_.decode_as_stored(file, image_), "keeping the stored colors (color -1; 1 and 0 convert them)");
    if (options_.center_crop) image_ = images::central_square(image_);
    return {};
  }
  const int channels = options_.color == 0 ? 1 : 3;
  if (!options_.center_crop) return decoder_.decode(file, channels, image_);
  DT_TRY(const images::ImageSize size, decoder_.open(file, channels));
  const images::Window wanted = images::central_square(size);
  DT_TRY(const images::Window part, decoder_.read(wanted, other_));
  images::cut(other_, part, wanted, image_);
  return {};
}

Result<> ImagePacker::resize(size_t place) {
  if (options_.resize == 0 || std::min(image_.height, image_.width) == options_.resize) return {};
  const images::ImageSize from = image_.size();
  const images::ImageSize to = images::size_of_shorter_edge(from, options_.resize);
  DT_TRY_VOID(images::check_image_size("resized", to.height, to.width), "resizing an image of {} x {}", image_.height,
              image_.width);
  const images::Interpolation method = method_for(options_, from, to, place);
  if (method == images::Interpolation::kBilinear) {
    resize_bilinear(to);
  } else {
    DT_TRY_VOID(images::resize_image(image_, to.height, to.width, other_, method));
  }
  std::swap(image_, other_);
  return {};
}

// Gives the same pixels as resize_image(), but is faster.
void ImagePacker::resize_bilinear(const images::ImageSize& to) {
  const images::ImageView from{.image = &image_, .height = image_.height, .width = image_.width};
  const images::Window whole = images::whole_image(to);
  other_.resize(whole.height, whole.width, image_.channels);
  images::BilinearRows rows(from, to, whole, bilinear_);
  const size_t row_bytes = static_cast<size_t>(whole.width) * static_cast<size_t>(image_.channels);
  for (int y = 0; y < whole.height; y++) std::memcpy(other_.at(y, 0), rows.row(y), row_bytes);
}

Result<> ImagePacker::encode(std::vector<uint8_t>& payload) {
  if (options_.raw) {
    DT_TRY(const std::vector<uint8_t> raw, images::make_raw_image(image_));
    payload.insert(payload.end(), raw.begin(), raw.end());
    return {};
  }
  if (options_.encoding_or_default() == ".jpg") {
    return encoder_.encode(
        image_, {.quality = options_.quality.value_or(kQualityDefault), .restart_interval = options_.restart_interval},
        payload);
  }
  DT_TRY(const std::vector<uint8_t> encoded,
         images::encode_image(image_, ".png", options_.quality.value_or(kQualityDefault)));
  payload.insert(payload.end(), encoded.begin(), encoded.end());
  return {};
}

// Image cannot hold 16 bits per channel, so such an image is converted and stored separately, as a PNG of 16 bits.
Result<> ImagePacker::append_deep_image(Bytes file, size_t place, std::vector<uint8_t>& payload) {
  DT_TRY(const images::ImageHeader header, images::read_image_header(file));
  DT_TRY_VOID(images::check_image_size(header.format, header.height, header.width));
  if (options_.raw || options_.encoding_or_default() != ".png") {
    return fail(Code::kData,
                "{}: the image has {} bits per channel, and {} can hold only 8; use --encoding .png to keep them, or "
                "--color 1 or 0 to convert them",
                header.format, header.bits, options_.raw ? "--raw" : "JPEG");
  }
  const auto change = [&](images::ImageSize whole) { return change_of(options_, whole, place); };
  DT_TRY(const std::vector<uint8_t> png, images::change_png(file, change, options_.quality.value_or(kQualityDefault)));
  payload.insert(payload.end(), png.begin(), png.end());
  return {};
}

}  // namespace dtrain::dataset
