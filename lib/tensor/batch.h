// A batch of labeled images on the host, as it is passed from the loader to the executors.
#pragma once

#include <cstdint>
#include <span>

namespace dtrain {

// A view that borrows its memory. Holds either floats or pixels (tensor/pixels.h); the spans of the other form are
// empty.
struct Batch {
  std::span<const float> data = {};        // [n, c, h, w], float32, row-major
  std::span<const float> labels = {};      // [n], class numbers
  std::span<const uint8_t> pixels = {};    // [n, h, w, c], not mirrored yet
  std::span<const uint8_t> mirrored = {};  // [n], with pixels: 1 if the image is to be mirrored
  // [n], for training: a random number for each image, different in every epoch, from which a network's own random
  // numbers are made. May be absent if it draws none.
  std::span<const uint64_t> keys = {};

  // Images [begin, begin + count) of this batch, which has `images` of them.
  [[nodiscard]] Batch part(int64_t images, int64_t begin, int64_t count) const {
    const auto of = [&](auto all) {
      const auto each = all.size() / static_cast<size_t>(images);
      return all.subspan(static_cast<size_t>(begin) * each, static_cast<size_t>(count) * each);
    };
    return {of(data), of(labels), of(pixels), of(mirrored), of(keys)};
  }
};

}  // namespace dtrain
