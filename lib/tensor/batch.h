// A batch of examples in host memory, as the loader passes it to the executors: the values of the network's inputs, and
// the labels that its losses use. In image classification, there is one input (the images) and one label.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain {

// The form in which a batch has its examples, for one input of the network.
struct InputForm {
  Shape shape;  // shape of an example, [c, h, w] or [c]
  // How uint8 pixels are converted to floats. Null if batches contain floats.
  std::shared_ptr<const Normalisation> normalisation = nullptr;
};

// Does not own its memory. In the following, n is the number of examples.
struct Batch {
  // The values of one input: either floats or pixels (tensor/pixels.h). The spans of the other form are empty.
  struct Input {
    std::span<const float> floats = {};      // values as [n, shape], float32, row-major
    std::span<const uint8_t> pixels = {};    // pixels as [n, h, w, c], before mirroring
    std::span<const uint8_t> mirrored = {};  // only with pixels: for each of the n images, 1 if it must be mirrored
  };
  static constexpr size_t kInputsMax = 4;

  std::array<Input, kInputsMax> inputs = {};  // in the order of the network's inputs (graph::Shapes::inputs)
  // Class indexes as [n, number of labels], row-major, in the order of the network's labels (graph::Shapes::labels).
  std::span<const float> labels = {};
  // For training: n random numbers, one for each example, different in every epoch. The random numbers that the network
  // draws are derived from them. May be empty if the network draws none.
  std::span<const uint64_t> keys = {};

  // Returns a batch with a single input, in the form of floats.
  static Batch of(std::span<const float> floats, std::span<const float> labels = {},
                  std::span<const uint64_t> keys = {}) {
    return {.inputs = {Input{.floats = floats}}, .labels = labels, .keys = keys};
  }

  // Returns the examples [begin, begin + count) of this batch. `examples` must be the number of examples in this batch.
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
