#include "data/idx_source.h"

#include <zlib.h>

#include <algorithm>

#include "base/file.h"

namespace dtrain::data {
namespace {

using Content = std::vector<uint8_t>;

Result<Content> gunzip(const std::string& path, Bytes compressed, int64_t bytes_max) {
  z_stream stream{};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) return fail(Code::kInternal, "zlib does not start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  stream.next_in = const_cast<uint8_t*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  Content content;
  int status = Z_OK;
  while (status == Z_OK) {
    constexpr size_t kStep = 1 << 20;
    const size_t have = content.size();
    content.resize(have + kStep);
    stream.next_out = content.data() + have;
    stream.avail_out = kStep;
    status = inflate(&stream, Z_NO_FLUSH);
    content.resize(have + kStep - stream.avail_out);
    if (static_cast<int64_t>(content.size()) > bytes_max) return fail(Code::kData, "{}: larger than expected", path);
  }
  if (status != Z_STREAM_END)
    return fail(Code::kData, "{}: damaged gzip file ({})", path, stream.msg ? stream.msg : "it ends early");
  return content;
}

uint32_t big_u32(Bytes bytes, size_t at) {
  return __builtin_bswap32(load_u32(bytes.data() + at));
}

constexpr uint32_t kImagesMagic = 0x803;
constexpr uint32_t kLabelsMagic = 0x801;
constexpr size_t kImagesHeader = 16;
constexpr size_t kLabelsHeader = 8;
constexpr int64_t kFileBytesMax = int64_t{1} << 31;  // MNIST has 47 million

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

  Result<float> read(int64_t index, ReadScratch& scratch) const override {
    scratch.image.resize(rows_, columns_, 1);
    const size_t bytes = scratch.image.pixels.size();
    const uint8_t* pixels = images_.data() + kImagesHeader + static_cast<size_t>(index) * bytes;
    std::copy(pixels, pixels + bytes, scratch.image.pixels.data());
    return static_cast<float>(labels_[kLabelsHeader + static_cast<size_t>(index)]);
  }

  [[nodiscard]] std::string describe(int64_t index) const override { return fmt::format("{}: image {}", path_, index); }

 private:
  std::string path_;
  Content images_, labels_;
  int64_t count_;
  int rows_, columns_;
};

Result<> check_images(const std::string& path, Bytes content) {
  if (content.size() < kImagesHeader || big_u32(content, 0) != kImagesMagic) {
    return fail(Code::kData, "{}: not an idx file of images (magic 0x00000803)", path);
  }
  const uint64_t rows = big_u32(content, 8), columns = big_u32(content, 12);
  const uint64_t pixels = rows * columns;  // 64 bits hold the product of two 32 bit numbers
  if (pixels == 0 || pixels > (uint64_t{1} << 24))
    return fail(Code::kData, "{}: images of {} x {} pixels", path, rows, columns);
  const uint64_t bytes = big_u32(content, 4) * pixels + kImagesHeader;
  if (content.size() != bytes) {
    return fail(Code::kData, "{}: {} bytes where its header announces {}", path, content.size(), bytes);
  }
  return {};
}

Result<> check_labels(const std::string& path, Bytes content) {
  if (content.size() < kLabelsHeader || big_u32(content, 0) != kLabelsMagic) {
    return fail(Code::kData, "{}: not an idx file of labels (magic 0x00000801)", path);
  }
  const uint64_t bytes = uint64_t{big_u32(content, 4)} + kLabelsHeader;
  if (content.size() != bytes) {
    return fail(Code::kData, "{}: {} bytes where its header announces {}", path, content.size(), bytes);
  }
  return {};
}

}  // namespace

Result<std::vector<uint8_t>> read_maybe_gzip(const std::string& path, int64_t bytes_max) {
  DT_TRY(const std::string text, read_file(path));
  Content content(text.begin(), text.end());
  if (content.size() >= 2 && content[0] == 0x1f && content[1] == 0x8b) return gunzip(path, content, bytes_max);
  return content;
}

Result<std::shared_ptr<const ImageSource>> open_idx(const std::string& images, const std::string& labels) {
  DT_TRY(Content image_bytes, read_maybe_gzip(images, kFileBytesMax));
  DT_TRY_VOID(check_images(images, image_bytes));
  DT_TRY(Content label_bytes, read_maybe_gzip(labels, kFileBytesMax));
  DT_TRY_VOID(check_labels(labels, label_bytes));
  if (big_u32(image_bytes, 4) != big_u32(label_bytes, 4)) {
    return fail(Code::kData, "{} has {} images, {} has {} labels", images, big_u32(image_bytes, 4), labels,
                big_u32(label_bytes, 4));
  }
  if (big_u32(image_bytes, 4) == 0) return fail(Code::kData, "{}: no image", images);
  return std::make_shared<const IdxSource>(images, std::move(image_bytes), std::move(label_bytes));
}

}  // namespace dtrain::data
