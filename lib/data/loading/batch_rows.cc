#include "data/loading/batch_rows.h"

#include <algorithm>

namespace dtrain::data {
namespace {

constexpr size_t kFloatsPerLine = 16;

// The number of floats in the smallest number of whole cache lines that hold this many bytes.
size_t lines(size_t bytes) {
  const size_t line_bytes = kFloatsPerLine * sizeof(float);
  return (bytes + line_bytes - 1) / line_bytes * kFloatsPerLine;
}

}  // namespace

// The memory holds labels, images, mirror flags and keys; each part begins at the start of a cache line.
BatchRows::BatchRows(const Form& form, const FloatAllocator& allocate) : rows_(form.rows) {
  const size_t elements = form.rows * form.image_elements, labels = form.rows * form.labels;
  const size_t images_at = lines(labels * sizeof(float));
  const size_t mirrored_at = images_at + lines(form.pixels ? elements : elements * sizeof(float));
  const size_t keys_at = mirrored_at + (form.pixels ? lines(form.rows) : 0);
  memory_ = allocate(keys_at + lines(form.rows * sizeof(uint64_t)));
  labels_ = {memory_.get(), labels};
  keys_ = {reinterpret_cast<uint64_t*>(memory_.get() + keys_at), form.rows};
  float* images = memory_.get() + images_at;
  if (form.pixels) {
    pixels_ = {reinterpret_cast<uint8_t*>(images), elements};
    mirrored_ = {reinterpret_cast<uint8_t*>(memory_.get() + mirrored_at), form.rows};
  } else {
    floats_ = {images, elements};
  }
}

void BatchRows::clear(int64_t row) {
  std::ranges::fill(floats(row), 0.0f);
  std::ranges::fill(pixels(row), uint8_t{0});
  std::ranges::fill(part(mirrored_, row), uint8_t{0});
  std::ranges::fill(labels(row), 0.0f);
}

void BatchRows::copy(int64_t from, int64_t to) {
  std::ranges::copy(floats(from), floats(to).begin());
  std::ranges::copy(pixels(from), pixels(to).begin());
  std::ranges::copy(part(mirrored_, from), part(mirrored_, to).begin());
  std::ranges::copy(labels(from), labels(to).begin());
  std::ranges::copy(part(keys_, from), part(keys_, to).begin());
}

Batch BatchRows::view() const {
  return {.inputs = {Batch::Input{floats_, pixels_, mirrored_}}, .labels = labels_, .keys = keys_};
}

}  // namespace dtrain::data
