// A batch of labelled images on the host, as it travels from the loader to the executors.
#pragma once

#include <cstdint>
#include <span>

namespace dtrain {

// Borrowed. The images are numbers, or pixels (tensor/pixels.h): the other spans are empty.
struct Batch {
  std::span<const float> data = {};        // [n, c, h, w], float32, row-major
  std::span<const float> labels = {};      // [n], classes as whole numbers
  std::span<const uint8_t> pixels = {};    // [n, h, w, c], before they are mirrored
  std::span<const uint8_t> mirrored = {};  // [n], with pixels: 1 for an image that is mirrored

  // Images [begin, begin + count) of this batch of `images`.
  [[nodiscard]] Batch part(int64_t images, int64_t begin, int64_t count) const {
    const auto of = [&](auto all) {
      const auto each = all.size() / static_cast<size_t>(images);
      return all.subspan(static_cast<size_t>(begin) * each, static_cast<size_t>(count) * each);
    };
    return {of(data), of(labels), of(pixels), of(mirrored)};
  }
};

}  // namespace dtrain
