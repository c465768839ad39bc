// Convolutions as the device's library is asked for them: shapes and passes. Tensors are NHWC, filters KRSC. Without
// cuDNN's headers: what the library makes of a pass is in convolution.h.
//
// A fully connected layer is the 1x1 convolution of a map of one pixel. cuDNN's matmul would say it more plainly, but
// all its engines compile at run time, which takes a driver and seconds; convolutions come compiled (plans_sm90.txt).
// With x kept as NHWC and flattened as it lies, its weights [outputs, c*h*w] have to be kept as [outputs, h, w, c]: the
// same change of order as that of a filter [outputs, c, h, w], so one rule serves both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/type.h"

namespace dtrain::cuda {

enum class Pass {
  kForward,            // y = x (*) w, + bias where op.bias
  kForwardStatistics,  // y = x (*) w, and per channel the sums of y and y^2 that batch norm needs
  kBackwardData,       // dx from dy and w
  kBackwardFilter,     // dw from x and dy
};

const char* pass_name(Pass pass);  // "backward data"

// A convolution over a batch.
struct ConvolutionShape {
  int64_t n = 1, c = 1, h = 1, w = 1;  // of x
  graph::Convolution op;
  // Elements from one pixel to the next; 0: packed. Larger: x or y is a slice of the channels of a wider tensor, as
  // branches are of a concatenation.
  int64_t x_pitch = 0, y_pitch = 0;

  [[nodiscard]] int64_t p() const { return (h + 2 * op.pad_h - op.kernel_h) / op.stride_h + 1; }
  [[nodiscard]] int64_t q() const { return (w + 2 * op.pad_w - op.kernel_w) / op.stride_w + 1; }
  // "256x64x56x56 k64 3x3 s1 p1", and what is not as usual: groups, pitches. Equal texts, equal plans.
  [[nodiscard]] std::string text() const;
};

struct ConvolutionPass {
  ConvolutionShape shape;
  Pass pass = Pass::kForward;
  Type type = Type::kFloat32;

  [[nodiscard]] std::string text() const;  // "forward float16 256x64x56x56 k64 3x3 s1 p1": a key
};

// One convolution or fully connected layer of a network.
struct ConvolutionCase {
  graph::NodeId node = 0;
  ConvolutionShape shape;
  bool needs_dx = true;  // false: nothing before it is learned
};

// All of a graph's convolutions and fully connected layers, in canonical order, for batches of `batch` images. The bias
// of a fully connected layer is the convolution's.
std::vector<ConvolutionCase> convolutions_of(const graph::Graph& graph, const graph::Shapes& shapes, int64_t batch);

}  // namespace dtrain::cuda
