#include "data/sources/cifar_source.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/file_kind.h"
#include "data/records/pickle.h"
#include "data/records/record_file.h"

namespace dtrain::data {
namespace {

constexpr int kEdge = 32;
constexpr size_t kPlane = static_cast<size_t>(kEdge) * kEdge;
constexpr uint64_t kBatchBytesMax = uint64_t{1} << 29;  // limit for a pickled batch; CIFAR-100's largest has 155 MB

// The labels at the start of a record. The pixels follow: the red, the green and the blue plane, each row by row.
struct LabelBytes {
  int64_t count;
  uint8_t coarse_max;  // largest value of the first of two labels
  uint8_t max;         // largest value of the last label
};
LabelBytes labels_of(Cifar kind) {
  return kind == Cifar::k10 ? LabelBytes{1, 9, 9} : LabelBytes{2, 19, 99};
}

// The labels of an image. CIFAR-10 has only the last one.
using LabelValues = std::array<uint8_t, 2>;

// A file, and the location of its images: one every `stride` bytes.
struct ImageFile {
  RecordFile file;
  int64_t first = 0, stride = 0;
  std::vector<LabelValues> labels;
};

Result<> check_labels(const ImageFile& images, const LabelBytes& limits) {
  for (size_t i = 0; i < images.labels.size(); i++) {
    const std::span<const uint8_t> labels = std::span(images.labels[i]).last(static_cast<size_t>(limits.count));
    if (labels.front() <= limits.coarse_max && labels.back() <= limits.max) continue;
    return fail(Code::kData, "{}: image {} has the label {}; the file is not one of CIFAR-{}", images.file.path(), i,
                fmt::join(labels, "/"), limits.max + 1);
  }
  return {};
}

Result<ImageFile> open_binary(RecordFile file, const LabelBytes& limits) {
  const int64_t record_bytes = limits.count + static_cast<int64_t>(3 * kPlane);
  if (file.size() == 0 || file.size() % record_bytes != 0) {
    return fail(Code::kData,
                "{}: the size of {} bytes is not a multiple of the {} bytes of an image; the file is cut short or has "
                "another format",
                file.path(), file.size(), record_bytes);
  }
  ImageFile images{.file = std::move(file), .first = limits.count, .stride = record_bytes, .labels = {}};
  images.labels.resize(static_cast<size_t>(images.file.size() / record_bytes));
  for (size_t i = 0; i < images.labels.size(); i++) {
    const std::span<uint8_t> labels = std::span(images.labels[i]).last(static_cast<size_t>(limits.count));
    DT_TRY_VOID(images.file.read_at(static_cast<int64_t>(i) * record_bytes, labels));
  }
  return images;
}

// Reads the list of labels with this key into label `place` of each image.
Result<> take_labels(const Pickle& pickle, const char* key, size_t place, std::vector<LabelValues>& labels) {
  const Pickle::Value* list = pickle.find(pickle.root(), key);
  if (list == nullptr) return fail(Code::kData, "the file has no entry '{}'", key);
  if (list->items.size() != labels.size()) {
    return fail(Code::kData, "the entry '{}' has {} labels, but the file has {} images", key, list->items.size(),
                labels.size());
  }
  for (size_t i = 0; i < labels.size(); i++) {
    const Pickle::Value& label = pickle[list->items[i]];
    if (label.kind != Pickle::Value::Kind::kInteger || label.integer < 0 || label.integer > UINT8_MAX) {
      return fail(Code::kData, "image {}: its entry in '{}' is not a label (an integer from 0 to 255)", i, key);
    }
    labels[i][place] = static_cast<uint8_t>(label.integer);
  }
  return {};
}

// A batch pickled by Python: a dictionary with the labels, and with the pixels of all images in one array.
Result<ImageFile> open_batch(RecordFile file, const std::string& text, Cifar kind) {
  DT_TRY(const Pickle pickle, Pickle::parse(text));
  const Pickle::Value* data = pickle.find(pickle.root(), "data");
  if (data == nullptr) return fail(Code::kData, "the file is not a CIFAR batch: it has no entry 'data'");
  DT_TRY(const PickledBytes pixels, byte_array(pickle, *data));
  if (pixels.columns != static_cast<int64_t>(3 * kPlane)) {
    return fail(Code::kData, "the images have {} bytes instead of {}", pixels.columns, 3 * kPlane);
  }
  ImageFile images{.file = std::move(file),
                   .first = pixels.bytes.data() - text.data(),
                   .stride = pixels.columns,
                   .labels = std::vector<LabelValues>(static_cast<size_t>(pixels.rows))};
  if (kind == Cifar::k10) {
    DT_TRY_VOID(take_labels(pickle, "labels", 1, images.labels));
    return images;
  }
  DT_TRY_VOID(take_labels(pickle, "coarse_labels", 0, images.labels));
  DT_TRY_VOID(take_labels(pickle, "fine_labels", 1, images.labels));
  return images;
}

Result<ImageFile> open_images(RecordFile file, Cifar kind) {
  std::array<uint8_t, 2> begin{};
  if (file.size() >= std::ssize(begin)) DT_TRY_VOID(file.read_at(0, begin));
  const std::string path = file.path();
  if (file_kind({reinterpret_cast<const char*>(begin.data()), begin.size()}) != "a pickled Python object") {
    return open_binary(std::move(file), labels_of(kind));
  }
  DT_TRY(const std::string text, read_file(path, kBatchBytesMax));
  Result<ImageFile> opened = open_batch(std::move(file), text, kind);
  if (!opened) return fail(Code::kData, "{}: {}", path, opened.error().message);
  return opened;
}

class CifarSource : public ImageSource {
 public:
  CifarSource(Cifar kind, size_t label_width) : limits_(labels_of(kind)), label_width_(label_width) {}

  Result<> add(ImageFile images) {
    DT_TRY_VOID(check_labels(images, limits_));
    end_.push_back(size() + std::ssize(images.labels));
    files_.push_back(std::move(images));
    return {};
  }

  [[nodiscard]] int64_t size() const override { return end_.empty() ? 0 : end_.back(); }
  [[nodiscard]] int channels() const override { return 3; }

  [[nodiscard]] size_t label_width() const override { return label_width_; }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    const Place place = place_of(index);
    const ImageFile& images = files_[place.file];
    const LabelValues& all = images.labels[static_cast<size_t>(place.image)];
    std::ranges::copy(std::span(all).last(labels.size()), labels.begin());
    scratch.record.resize(3 * kPlane);
    DT_TRY_VOID(images.file.read_at(images.first + place.image * images.stride, scratch.record));
    images::Image& image = scratch.open_pixels(kEdge, kEdge, 3);
    for (size_t pixel = 0; pixel < kPlane; pixel++) {
      for (size_t plane = 0; plane < 3; plane++) {
        image.pixels[3 * pixel + 2 - plane] = scratch.record[plane * kPlane + pixel];
      }
    }
    return {};
  }

  [[nodiscard]] std::string describe(int64_t index) const override {
    const Place place = place_of(index);
    return fmt::format("{}: image {}", files_[place.file].file.path(), place.image);
  }

 private:
  struct Place {
    size_t file;
    int64_t image;
  };

  [[nodiscard]] Place place_of(int64_t index) const {
    const auto file = static_cast<size_t>(std::ranges::upper_bound(end_, index) - end_.begin());
    return {file, index - (file == 0 ? 0 : end_[file - 1])};
  }

  LabelBytes limits_;
  size_t label_width_;
  std::vector<ImageFile> files_;
  std::vector<int64_t> end_;  // indexed by file: the number of images in this file and all files before it
};

}  // namespace

const std::vector<CifarForm>& cifar_forms(Cifar kind) {
  static const std::vector<CifarForm> ten = {
      {"cifar-10-batches-bin",
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       "test_batch.bin"},
      {"cifar-10-batches-py",
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
       "test_batch"}};
  static const std::vector<CifarForm> hundred = {{"cifar-100-binary", {"train.bin"}, "test.bin"},
                                                 {"cifar-100-python", {"train"}, "test"}};
  return kind == Cifar::k10 ? ten : hundred;
}

Result<std::shared_ptr<const ImageSource>> open_cifar(Cifar kind, const std::vector<std::string>& paths,
                                                      size_t label_width, const Log& log) {
  DT_CHECK(label_width >= 1 && label_width <= cifar_labels(kind), "an image of CIFAR cannot have {} labels",
           label_width);
  auto source = std::make_shared<CifarSource>(kind, label_width);
  for (const std::string& path : paths) {
    DT_TRY(RecordFile file, RecordFile::open(path, log));
    DT_TRY(ImageFile images, open_images(std::move(file), kind));
    DT_TRY_VOID(source->add(std::move(images)));
  }
  return source;
}

}  // namespace dtrain::data
