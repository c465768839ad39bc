// How a graph's tensors lie on the device: decided once, before anything is lowered.
#pragma once

#include <optional>
#include <vector>

#include "exec/executor.h"
#include "graph/graph.h"

namespace dtrain::cuda {

// A node's output for one image.
struct MapForm {
  int64_t h = 1, w = 1, channels = 1;
  int64_t zeros = 0;  // channels behind its own that hold 0
  friend bool operator==(const MapForm&, const MapForm&) = default;
};

// A learned tensor in the form that the network computes with: kernels/layout.h's WeightTensor. A bias is one filter
// of one tap; gammas and betas stay as they are.
struct WeightForm {
  Type type = Type::kFloat32;
  int64_t filters = 1, channels = 1, taps = 1, stored_channels = 1;
  // The canonical float32 tensor is in that form already.
  [[nodiscard]] bool is_canonical() const {
    return type == Type::kFloat32 && stored_channels == channels && (taps == 1 || channels == 1);
  }
  [[nodiscard]] size_t stored_bytes() const {
    return static_cast<size_t>(filters * taps * stored_channels * bytes_of(type));
  }
};

// Where a node writes its output into that of a Concat: at this channel. The Concat then has nothing to do for it.
struct Slice {
  graph::NodeId concat = 0;
  int64_t channel = 0;
};

struct Layout {
  std::vector<MapForm> maps;                 // by node
  std::vector<WeightForm> weights;           // by parameter
  std::vector<std::optional<Slice>> slices;  // by node
  std::vector<char> wants_gradient;          // by node: it, or something before it, learns
};

Layout choose_layout(const graph::Graph& graph, const graph::Shapes& shapes, Type type);

}  // namespace dtrain::cuda
