#include "data/sources/idx_source.h"

#include <algorithm>

#include "data/records/gzip_file.h"

namespace dtrain::data {
namespace {

using Content = std::vector<uint8_t>;

// Appends up to `bytes` bytes of the file to `content`; fewer at its end. Allocates memory only for bytes that exist.
Result<> append(GzipFile& file, uint64_t bytes, Content& content) {
  constexpr uint64_t kStep = 1 << 20;
  while (bytes > 0) {
    const size_t have = content.size();
    content.resize(have + std::min(bytes, kStep));
    DT_TRY(const size_t got, file.read(std::span(content).subspan(have)));
    content.resize(have + got);
    if (got < std::min(bytes, kStep)) return {};
    bytes -= got;
  }
  return {};
}

uint32_t big_u32(Bytes bytes, size_t at) {
  return __builtin_bswap32(load_u32(bytes.data() + at));
}

constexpr uint32_t kImagesMagic = 0x803;
constexpr uint32_t kLabelsMagic = 0x801;
constexpr size_t kImagesHeader = 16;
constexpr size_t kLabelsHeader = 8;

class IdxSource : public ImageSource {
 public:
  IdxSource(std::string path, Content images, Content labels)
      : path_(std::move(path)),
        images_(std::move(images)),
        labels_(std::move(labels)),
        count_(big_u32(images_, 4)),
        rows_(static_cast<int>(big_u32(images_, 8))),
        columns_(static_cast<int>(big_u32(images_, 12))) {}

  [[nodiscard]] int64_t size() const override { return count_; }
  [[nodiscard]] int channels() const override { return 1; }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    images::Image& image = scratch.open_pixels(rows_, columns_, 1);
    const size_t bytes = image.pixels.size();
    const uint8_t* pixels = images_.data() + kImagesHeader + static_cast<size_t>(index) * bytes;
    std::copy(pixels, pixels + bytes, image.pixels.data());
    labels[0] = labels_.empty() ? 0.0F : static_cast<float>(labels_[kLabelsHeader + static_cast<size_t>(index)]);
    return {};
  }

  [[nodiscard]] std::string describe(int64_t index) const override { return fmt::format("{}: image {}", path_, index); }

 private:
  std::string path_;
  Content images_, labels_;
  int64_t count_;
  int rows_, columns_;
};

// The number of data bytes after the header of a file of images.
Result<uint64_t> image_bytes(const std::string& path, Bytes header) {
  if (header.size() < kImagesHeader || big_u32(header, 0) != kImagesMagic) {
    return fail(Code::kData, "{}: the file is not an idx file of images (magic 0x00000803)", path);
  }
  const uint64_t rows = big_u32(header, 8), columns = big_u32(header, 12);
  const uint64_t pixels = rows * columns;  // 64 bits hold the product of two 32-bit numbers
  if (pixels == 0 || pixels > (uint64_t{1} << 24))
    return fail(Code::kData, "{}: the header announces images of {} x {} pixels; they must have from 1 to 2^24 pixels",
                path, rows, columns);
  return big_u32(header, 4) * pixels;
}

Result<uint64_t> label_bytes(const std::string& path, Bytes header) {
  if (header.size() < kLabelsHeader || big_u32(header, 0) != kLabelsMagic) {
    return fail(Code::kData, "{}: the file is not an idx file of labels (magic 0x00000801)", path);
  }
  return uint64_t{big_u32(header, 4)};
}

// Reads a whole idx file. Uses no more memory than its header announces.
Result<Content> read_idx(const std::string& path, size_t header_bytes,
                         Result<uint64_t> (*data_bytes)(const std::string& path, Bytes header)) {
  DT_TRY(GzipFile file, GzipFile::open(path));
  Content content;
  DT_TRY_VOID(append(file, header_bytes, content));
  DT_TRY(const uint64_t announced, data_bytes(path, content));
  if (announced > kIdxBytesMax) {
    return fail(Code::kData, "{}: the header announces {} bytes, more than the limit of {}", path, announced,
                kIdxBytesMax);
  }
  const uint64_t whole = header_bytes + announced;
  content.reserve(whole + 1);
  DT_TRY_VOID(append(file, announced + 1, content));
  if (content.size() == whole) return content;
  return fail(Code::kData, "{}: the header announces {} bytes, but the file has {}", path, whole,
              content.size() > whole ? "more" : fmt::format("only {}", content.size()));
}

// `classes`: empty if there is no file of labels.
Result<> check_counts(const std::string& images, Bytes pixels, const std::string& labels, Bytes classes) {
  if (!classes.empty() && big_u32(pixels, 4) != big_u32(classes, 4)) {
    return fail(Code::kData, "{} has {} images, but {} has {} labels", images, big_u32(pixels, 4), labels,
                big_u32(classes, 4));
  }
  if (big_u32(pixels, 4) == 0) return fail(Code::kData, "{}: the file contains no images", images);
  return {};
}

}  // namespace

bool is_idx_images(std::string_view name) {
  return name.find("images-idx3-ubyte") != std::string_view::npos ||
         name.find("images.idx3-ubyte") != std::string_view::npos;
}

Result<IdxFacts> idx_facts(const std::string& images, const std::string& labels) {
  DT_TRY(GzipFile file, GzipFile::open(images));
  Content header;
  DT_TRY_VOID(append(file, kImagesHeader, header));
  DT_TRY_VOID(image_bytes(images, header));
  Content classes;
  if (!labels.empty()) {
    DT_TRY(classes, read_idx(labels, kLabelsHeader, label_bytes));
  }
  DT_TRY_VOID(check_counts(images, header, labels, classes));
  if (!labels.empty()) classes.erase(classes.begin(), classes.begin() + kLabelsHeader);
  return IdxFacts{.images = big_u32(header, 4),
                  .rows = big_u32(header, 8),
                  .columns = big_u32(header, 12),
                  .labels = std::move(classes)};
}

Result<std::shared_ptr<const ImageSource>> open_idx(const std::string& images, const std::string& labels) {
  DT_TRY(Content pixels, read_idx(images, kImagesHeader, image_bytes));
  Content classes;
  if (!labels.empty()) {
    DT_TRY(classes, read_idx(labels, kLabelsHeader, label_bytes));
  }
  DT_TRY_VOID(check_counts(images, pixels, labels, classes));
  return std::make_shared<const IdxSource>(images, std::move(pixels), std::move(classes));
}

}  // namespace dtrain::data
