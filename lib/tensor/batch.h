// A batch of examples on the host, as the loader passes it to the executors: the content of the network's inputs, and
// the labels with which its losses compare. In image classification there is one input, the images, and one label.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain {

// The form of a batch's examples for one input of the network.
struct InputForm {
  Shape shape;  // [c, h, w] or [c]
  // How uint8 pixels become floats. Null if batches already hold floats.
  std::shared_ptr<const Normalisation> normalisation = nullptr;
};

// A view that borrows its memory. n is the number of examples.
struct Batch {
  // Holds either floats or pixels (tensor/pixels.h); the spans of the other form are empty.
  struct Input {
    std::span<const float> floats = {};      // [n, shape], float32, row-major
    std::span<const uint8_t> pixels = {};    // [n, h, w, c], not mirrored yet
    std::span<const uint8_t> mirrored = {};  // [n], with pixels: 1 if the image is to be mirrored
  };
  static constexpr size_t kInputsMax = 4;

  std::array<Input, kInputsMax> inputs = {};  // in the order of the network's inputs (graph::Shapes::inputs)
  // [n, number of labels], row-major: class indices, in the order of the network's labels (graph::Shapes::labels).
  std::span<const float> labels = {};
  // [n], for training: a random number for each example, different in every epoch. The network's own random numbers are
  // derived from it. May be absent if the network draws none.
  std::span<const uint64_t> keys = {};

  // A batch with one input, given as floats.
  static Batch of(std::span<const float> floats, std::span<const float> labels = {},
                  std::span<const uint64_t> keys = {}) {
    return {.inputs = {Input{.floats = floats}}, .labels = labels, .keys = keys};
  }

  // Examples [begin, begin + count) of this batch, which has `examples` of them.
  [[nodiscard]] Batch part(int64_t examples, int64_t begin, int64_t count) const {
    const auto part_of = [&](auto all) {
      const auto each = all.size() / static_cast<size_t>(examples);
      return all.subspan(static_cast<size_t>(begin) * each, static_cast<size_t>(count) * each);
    };
    Batch part{.inputs = {}, .labels = part_of(labels), .keys = part_of(keys)};
    for (size_t i = 0; i < kInputsMax; i++) {
      part.inputs[i] = {part_of(inputs[i].floats), part_of(inputs[i].pixels), part_of(inputs[i].mirrored)};
    }
    return part;
  }
};

}  // namespace dtrain
