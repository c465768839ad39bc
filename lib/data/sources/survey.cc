#include "data/sources/survey.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "data/records/image_record.h"
#include "data/records/record_file.h"
#include "data/sources/image_directory.h"
#include "images/image.h"
#include "images/orientation.h"

namespace dtrain::data {
namespace {

constexpr int64_t kWholeFilesMax = int64_t{1} << 30;
constexpr int64_t kPlaces = 1024;       // number of places at which a file is read if it is not read as a whole
constexpr int64_t kImagesPerFile = 64;  // number of images of each file that are decoded to get their size
// In class directories: the number of classes that are examined, and the number of images that are decoded in each.
constexpr int64_t kClasses = 8, kImagesPerClass = 8;

// `count` numbers spread evenly over [0, n).
std::vector<int64_t> spread(int64_t n, int64_t count) {
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < std::min(n, count); i++) chosen.push_back(n * i / std::min(n, count));
  return chosen;
}

// Collects the sizes of images.
class Sizes {
 public:
  // Adds the size of an image. Fails if the image does not decode; it is then not counted. Callers leave such images
  // out, because training reports them.
  Result<> look_at(Bytes file) {
    DT_TRY_VOID(decoder_.decode_as_stored(file, image_));
    const images::ImageSize upright = images::read_orientation(file).turned(image_.size());
    (image_.channels == 1 ? gray_ : color_) = true;
    const Shape shape = {1, upright.height, upright.width};
    const auto by_pixels = [](const Shape& a, const Shape& b) { return a[1] * a[2] < b[1] * b[2]; };
    if (!seen_ || by_pixels(shape, smallest_)) smallest_ = shape;
    if (!seen_ || by_pixels(largest_, shape)) largest_ = shape;
    same_ = !seen_ || (same_ && shape == first_);
    if (!seen_) first_ = shape;
    seen_ = true;
    return {};
  }

  void tell(Survey& survey) const {
    if (!seen_) return;
    survey.sizes = text(smallest_);
    survey.gray = gray_;
    survey.color = color_;
    if (same_) survey.image = Shape{survey.channels(), first_[1], first_[2]};
    if (smallest_ != largest_) survey.sizes = fmt::format("from {} to {}", text(smallest_), text(largest_));
  }

 private:
  static std::string text(const Shape& shape) { return fmt::format("{} x {}", shape[2], shape[1]); }

  images::ImageDecoder decoder_;
  images::Image image_;
  bool seen_ = false, same_ = true, gray_ = false, color_ = false;
  Shape first_, smallest_, largest_;
};

void add_label(float label, Survey& survey) {
  const bool is_class = label >= 0 && label <= static_cast<float>(kLabelMax) && label == std::floor(label);
  if (is_class) {
    survey.labels.insert(static_cast<int64_t>(label));
  } else {
    survey.are_classes = false;
  }
}

// The first record at or after `from`; the size of the file if there is none within 1 MiB.
Result<int64_t> record_at_or_after(const RecordFile& file, int64_t from) {
  constexpr int64_t kWindow = 32 << 10;
  std::vector<uint8_t> window;
  for (int64_t at = from; at < std::min(from + (1 << 20), file.size()); at += kWindow) {
    window.resize(static_cast<size_t>(std::min(kWindow + PartHeader::kBytes, file.size() - at)));
    DT_TRY_VOID(file.read_at(at, window));
    const int64_t start = find_record_start(window, 0);
    if (start < std::ssize(window)) return at + start;
  }
  return file.size();
}

// Reads the label of the record at `offset`. Returns where the next part begins; nullopt if no record begins at
// `offset`.
Result<std::optional<int64_t>> read_label(const RecordFile& file, int64_t offset, Survey& survey) {
  std::array<uint8_t, PartHeader::kBytes + ImageRecord::kHeaderBytes + 4> bytes{};
  const auto size = static_cast<size_t>(std::min<int64_t>(bytes.size(), file.size() - offset));
  if (size < PartHeader::kBytes) return std::nullopt;
  DT_TRY_VOID(file.read_at(offset, std::span(bytes).first(size)));
  const PartHeader header = parse_part_header(bytes);
  if (header.begins_record() && header.length >= ImageRecord::kHeaderBytes) {
    const uint32_t count = load_u32(bytes.data() + PartHeader::kBytes);
    const size_t at = PartHeader::kBytes + (count == 0 ? 4 : ImageRecord::kHeaderBytes);
    if (at + 4 <= size) add_label(std::bit_cast<float>(load_u32(bytes.data() + at)), survey);
  } else if (!header.continues_record() && !header.begins_record()) {
    return std::nullopt;
  }
  return offset + header.padded_bytes();
}

// Reads the labels of a file. Returns the offsets of the records.
Result<std::vector<int64_t>> read_labels(const RecordFile& file, bool whole, Survey& survey) {
  std::vector<int64_t> offsets;
  if (whole) {
    for (int64_t at = 0; at < file.size();) {
      DT_TRY(const std::optional<int64_t> next, read_label(file, at, survey));
      if (next) {
        offsets.push_back(at);
        at = *next;
      } else {
        DT_TRY(at, record_at_or_after(file, at + 4));
      }
    }
    return offsets;
  }
  for (int64_t i = 0; i < kPlaces; i++) {
    DT_TRY(const int64_t at, record_at_or_after(file, file.size() / kPlaces * i / 4 * 4));
    DT_TRY(const std::optional<int64_t> next, read_label(file, at, survey));
    if (next) offsets.push_back(at);
  }
  return offsets;
}

Result<> look_at_records(const RecordFile& file, const std::vector<int64_t>& offsets, Sizes& sizes) {
  std::vector<uint8_t> buffer;
  for (const int64_t i : spread(std::ssize(offsets), kImagesPerFile)) {
    const int64_t offset = offsets[static_cast<size_t>(i)];
    const Result<Bytes> payload = file.read(offset, 0, buffer);
    if (!payload && payload.error().code != Code::kData) return tl::unexpected(payload.error());
    if (!payload) continue;
    const Result<ImageRecord> record = parse_image_record(*payload);
    if (record) (void)sizes.look_at(record->image);
  }
  return {};
}

}  // namespace

std::optional<int64_t> Survey::classes() const {
  const bool all = complete && are_classes && !labels.empty() && *labels.rbegin() == std::ssize(labels) - 1;
  return all ? std::optional(std::ssize(labels)) : std::nullopt;
}

std::string Survey::text() const {
  std::string text = "no labels";
  if (!are_classes) {
    text = "labels that are not class numbers";
  } else if (!labels.empty()) {
    text = fmt::format("{} labels from {} to {}{}", labels.size(), *labels.begin(), *labels.rbegin(),
                       complete ? "" : " in the records that were examined");
  }
  if (sizes.empty()) return text;
  return fmt::format("{} and {}images {}{}", text,
                     !gray   ? ""
                     : color ? "gray and colored "
                             : "gray ",
                     sizes.starts_with("from") ? "" : "of ", sizes);
}

Result<Survey> survey_records(const std::vector<std::string>& paths) {
  std::vector<RecordFile> files;
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    DT_TRY(RecordFile file, RecordFile::open(path));
    DT_TRY_VOID(check_is_record_file(file));
    bytes += file.size();
    files.push_back(std::move(file));
  }
  Survey survey{.complete = bytes <= kWholeFilesMax, .labels = {}, .image = {}, .sizes = {}};
  Sizes sizes;
  for (const RecordFile& file : files) {
    DT_TRY(const std::vector<int64_t> offsets, read_labels(file, survey.complete, survey));
    DT_TRY_VOID(look_at_records(file, offsets, sizes));
  }
  sizes.tell(survey);
  return survey;
}

Result<Survey> survey_directory(const std::string& root, const std::vector<std::string>& classes) {
  Survey survey;
  for (int64_t i = 0; i < std::ssize(classes); i++) survey.labels.insert(i);
  Sizes sizes;
  for (const int64_t i : spread(std::ssize(classes), kClasses)) {
    const std::string directory = (std::filesystem::path(root) / classes[static_cast<size_t>(i)]).string();
    DT_TRY(const ListedImages found, list_images(directory));
    for (const int64_t k : spread(std::ssize(found.images), kImagesPerClass)) {
      const std::string path = (std::filesystem::path(directory) / found.images[static_cast<size_t>(k)]).string();
      const Result<std::string> file = read_file(path, kDataBytesMax);
      if (!file) continue;
      const Result<> seen = sizes.look_at(as_bytes(*file));
      if (!seen && survey.unreadable.empty()) survey.unreadable = path + ": " + seen.error().message;
    }
  }
  sizes.tell(survey);
  return survey;
}

}  // namespace dtrain::data
