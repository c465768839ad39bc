#include "images.h"

#include <algorithm>

#include "base/file.h"

namespace dtrain::gpu {

namespace {

constexpr uint32_t kBytes = 0x0800;  // of the magic number: the values are uint8
constexpr size_t kWord = 4;

uint32_t word(const std::string& text, size_t index) {
  uint32_t value = 0;
  for (size_t i = 0; i < kWord; i++) value = value << 8 | static_cast<uint8_t>(text[index * kWord + i]);
  return value;
}

std::string words(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  }
  return text;
}

struct Idx {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> values;
};

Result<Idx> read_idx(const std::string& path) {
  DT_TRY(const std::string text, read_file(path));
  const uint32_t magic = text.size() < kWord ? 0 : word(text, 0);
  const size_t rank = magic - kBytes;
  if (magic <= kBytes || rank > 4 || text.size() < (rank + 1) * kWord) {
    return fail(Code::kData, "{}: not an idx file of bytes", path);
  }
  Idx idx;
  int64_t count = 1;
  for (size_t d = 1; d <= rank; d++) {
    idx.dimensions.push_back(word(text, d));
    // At most 2^26 values so far, times at most 2^32: no overflow.
    if (count <= int64_t{1} << 26) count *= idx.dimensions.back();
  }
  const size_t begin = (rank + 1) * kWord;
  if (static_cast<size_t>(count) != text.size() - begin) {
    return fail(Code::kData, "{}: {} values announced, {} bytes there", path, count, text.size() - begin);
  }
  idx.values.assign(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end());
  return idx;
}

}  // namespace

void LabeledImages::read(int64_t index, int64_t height, int64_t width, float mean, float scale, float* to) const {
  const int64_t top = (shape[1] - height) / 2, left = (shape[2] - width) / 2;
  const uint8_t* image = pixels.data() + index * element_count(shape);
  for (int64_t c = 0; c < shape[0]; c++) {
    for (int64_t y = 0; y < height; y++) {
      const uint8_t* row = image + (c * shape[1] + top + y) * shape[2] + left;
      for (int64_t x = 0; x < width; x++) *to++ = (static_cast<float>(row[x]) - mean) * scale;
    }
  }
}

Result<LabeledImages> read_images(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  DT_TRY(Idx images, read_idx(path + "-images.idx"));
  DT_TRY(Idx labels, read_idx(path + "-labels.idx"));
  const size_t rank = images.dimensions.size();
  if (rank < 3 || labels.dimensions.size() != 1 || images.dimensions[0] != labels.dimensions[0]) {
    return fail(Code::kData, "{}-images.idx and {}-labels.idx do not belong together", path, path);
  }
  if (std::ranges::any_of(labels.values, [](uint8_t label) { return label > 9; })) {
    return fail(Code::kData, "{}-labels.idx: a label above 9", path);
  }
  LabeledImages read;
  read.shape = {rank == 4 ? images.dimensions[1] : 1, images.dimensions[rank - 2], images.dimensions[rank - 1]};
  read.pixels = std::move(images.values);
  read.labels = std::move(labels.values);
  return read;
}

Result<> write_images(const std::string& directory, const std::string& name, const LabeledImages& images) {
  const Shape& shape = images.shape;
  std::string pixels = words({kBytes + 4, images.count(), shape[0], shape[1], shape[2]});
  pixels.append(images.pixels.begin(), images.pixels.end());
  std::string labels = words({kBytes + 1, images.count()});
  labels.append(images.labels.begin(), images.labels.end());
  DT_TRY_VOID(make_directories(directory));
  DT_TRY_VOID(write_file_atomic(directory + "/" + name + "-images.idx", pixels));
  return write_file_atomic(directory + "/" + name + "-labels.idx", labels);
}

}  // namespace dtrain::gpu
