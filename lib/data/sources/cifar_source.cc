#include "data/sources/cifar_source.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>

#include "data/records/record_file.h"

namespace dtrain::data {
namespace {

constexpr int kEdge = 32;
constexpr size_t kPlane = static_cast<size_t>(kEdge) * kEdge;

// How a record begins. The pixels follow: the red, the green and the blue plane, each row by row.
struct LabelBytes {
  int64_t count;
  uint8_t coarse_max;  // of the first of two labels
  uint8_t max;         // of the last label
};
LabelBytes labels_of(Cifar kind) {
  return kind == Cifar::k10 ? LabelBytes{1, 9, 9} : LabelBytes{2, 19, 99};
}

class CifarSource : public ImageSource {
 public:
  CifarSource(Cifar kind, size_t label_width) : labels_(labels_of(kind)), label_width_(label_width) {}

  // Checks the size of a file and all its labels.
  Result<> add(RecordFile file) {
    if (file.size() == 0 || file.size() % record_bytes() != 0) {
      return fail(Code::kData,
                  "{}: {} bytes are not a multiple of the {} bytes of a picture; the file is cut or of another kind",
                  file.path(), file.size(), record_bytes());
    }
    const int64_t pictures = file.size() / record_bytes();
    for (int64_t i = 0; i < pictures; i++) DT_TRY_VOID(read_labels(file, i));
    end_.push_back(size() + pictures);
    files_.push_back(std::move(file));
    return {};
  }

  [[nodiscard]] int64_t size() const override { return end_.empty() ? 0 : end_.back(); }
  [[nodiscard]] int channels() const override { return 3; }

  [[nodiscard]] size_t label_width() const override { return label_width_; }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    const Place place = place_of(index);
    const RecordFile& file = files_[place.file];
    DT_TRY(const LabelValues all, read_labels(file, place.picture));
    std::ranges::copy(std::span(all).last(labels.size()), labels.begin());
    scratch.record.resize(3 * kPlane);
    DT_TRY_VOID(file.read_at(place.picture * record_bytes() + labels_.count, scratch.record));
    Image& image = scratch.open_pixels(kEdge, kEdge, 3);
    for (size_t pixel = 0; pixel < kPlane; pixel++) {
      for (size_t plane = 0; plane < 3; plane++) {
        image.pixels[3 * pixel + 2 - plane] = scratch.record[plane * kPlane + pixel];
      }
    }
    return {};
  }

  [[nodiscard]] std::string describe(int64_t index) const override {
    const Place place = place_of(index);
    return fmt::format("{}: picture {}", files_[place.file].path(), place.picture);
  }

 private:
  struct Place {
    size_t file;
    int64_t picture;
  };

  [[nodiscard]] int64_t record_bytes() const { return labels_.count + static_cast<int64_t>(3 * kPlane); }
  [[nodiscard]] Place place_of(int64_t index) const {
    const auto file = static_cast<size_t>(std::ranges::upper_bound(end_, index) - end_.begin());
    return {file, index - (file == 0 ? 0 : end_[file - 1])};
  }

  // The labels are the last ones; CIFAR-10 has only one.
  using LabelValues = std::array<uint8_t, 2>;
  [[nodiscard]] Result<LabelValues> read_labels(const RecordFile& file, int64_t picture) const {
    LabelValues values{};
    const std::span<uint8_t> bytes = std::span(values).last(static_cast<size_t>(labels_.count));
    DT_TRY_VOID(file.read_at(picture * record_bytes(), bytes));
    if (bytes.front() <= labels_.coarse_max && bytes.back() <= labels_.max) return values;
    return fail(Code::kData, "{}: picture {} has the label {}; the file is not one of CIFAR-{}", file.path(), picture,
                fmt::join(bytes, "/"), labels_.max + 1);
  }

  LabelBytes labels_;
  size_t label_width_;
  std::vector<RecordFile> files_;
  std::vector<int64_t> end_;  // by file: the number of pictures up to its end
};

}  // namespace

Result<std::shared_ptr<const ImageSource>> open_cifar(Cifar kind, const std::vector<std::string>& paths,
                                                      size_t label_width, const Log& log) {
  DT_CHECK(label_width >= 1 && label_width <= cifar_labels(kind), "{} labels of a picture of CIFAR", label_width);
  auto source = std::make_shared<CifarSource>(kind, label_width);
  for (const std::string& path : paths) {
    DT_TRY(RecordFile file, RecordFile::open(path, log));
    DT_TRY_VOID(source->add(std::move(file)));
  }
  return source;
}

}  // namespace dtrain::data
