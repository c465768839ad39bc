// How a graph's tensors are stored on the device, decided once before lowering.
#pragma once

#include <optional>
#include <vector>

#include "exec/executor.h"
#include "graph/ids.h"

namespace dtrain::cuda {

// The shape in which a node's output for one image is stored.
struct MapForm {
  int64_t h = 1, w = 1, channels = 1;
  int64_t zeros = 0;  // padding channels after the real ones, filled with 0
  friend bool operator==(const MapForm&, const MapForm&) = default;
};

// The form in which the network computes with a learned tensor; see WeightTensor in kernels/layout.h. A bias counts as
// one filter with one tap; gammas and betas keep their form. If several nodes read a tensor and would store it
// differently, it is stored without padding and, for fully connected layers, in the order of the canonical tensor (one
// tap).
struct WeightForm {
  Type type = Type::kFloat32;
  int64_t filters = 1, channels = 1, taps = 1, stored_channels = 1;
  // Whether the canonical float32 tensor already has this form.
  [[nodiscard]] bool is_canonical() const {
    return type == Type::kFloat32 && stored_channels == channels && (taps == 1 || channels == 1);
  }
  friend bool operator==(const WeightForm&, const WeightForm&) = default;
  [[nodiscard]] size_t stored_bytes() const {
    return static_cast<size_t>(filters * taps * stored_channels * bytes_of(type));
  }
};

// A node with a Slice writes its output directly into the output of a Concat, starting at this channel, so the Concat
// copies nothing for it.
struct Slice {
  graph::NodeId concat = 0;
  int64_t channel = 0;
};

struct Layout {
  std::vector<MapForm> maps;                 // indexed by node
  std::vector<WeightForm> weights;           // indexed by parameter
  std::vector<std::optional<Slice>> slices;  // indexed by node
  std::vector<char> wants_gradient;          // indexed by node: whether it or a node before it has parameters
  // Indexed by node: true if the gradient with respect to its output is needed only as the sum over the images. That is
  // the case for a batch normalization of the images that learns only beta. The convolution after it then computes the
  // gradient for a single image, which is the sum.
  std::vector<char> wants_sum;
};

Layout choose_layout(const graph::Graph& graph, const graph::Shapes& shapes, const exec::Options& options);

}  // namespace dtrain::cuda
