// The memory of one batch of a loader, row by row. Threads may write different rows at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/batch.h"
#include "tensor/parameter_memory.h"

namespace dtrain::data {

class BatchRows {
 public:
  struct Form {
    size_t rows = 1;
    size_t image_elements = 1;
    size_t labels = 1;    // number of labels of each row
    bool pixels = false;  // whether images are pixels; otherwise they are floats
  };
  // Allocates one piece of memory. Rows are undefined until they are written.
  BatchRows(const Form& form, const FloatAllocator& allocate);

  // Parts of one row. Batches of pixels have no floats, and batches of floats no pixels.
  std::span<float> labels(int64_t row) { return part(labels_, row); }
  std::span<float> floats(int64_t row) { return part(floats_, row); }
  std::span<uint8_t> pixels(int64_t row) { return part(pixels_, row); }
  void set_mirrored(int64_t row, bool mirrored) { mirrored_[static_cast<size_t>(row)] = mirrored ? 1 : 0; }
  void set_key(int64_t row, uint64_t key) { keys_[static_cast<size_t>(row)] = key; }
  void clear(int64_t row);  // sets everything but the key to 0
  void copy(int64_t from, int64_t to);

  [[nodiscard]] Batch view() const;

 private:
  template <class T>
  [[nodiscard]] std::span<T> part(std::span<T> all, int64_t row) const {
    const size_t each = all.size() / rows_;
    return all.subspan(static_cast<size_t>(row) * each, each);
  }

  size_t rows_;
  std::shared_ptr<float> memory_;  // owns the memory that the spans below refer to
  std::span<float> labels_, floats_;
  std::span<uint8_t> pixels_, mirrored_;
  std::span<uint64_t> keys_;
};

}  // namespace dtrain::data
