// The convolution shapes and passes for which cuDNN plans are requested. Tensors are NHWC, filters KRSC. This file does
// not need cuDNN's headers; convolution.h builds cuDNN's operations from a pass.
//
// A fully connected layer is a 1x1 convolution of a map with one pixel. cuDNN's matmul would be more direct, but all
// its engines compile at run time, which needs a driver and takes seconds, while convolution engines are precompiled
// (test/cuda/dnn/plans_sm90.txt). If x is kept in NHWC and is flattened in that order, the weights [outputs, c*h*w]
// must be stored as [outputs, h, w, c]. A filter [outputs, c, h, w] needs the same permutation, so one rule serves
// both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/type.h"

namespace dtrain::cuda {

enum class Pass {
  kForward,            // y = x (*) w, plus the bias if op.bias
  kForwardStatistics,  // y = x (*) w, and for each channel the sums of y and y^2, for batch normalization
  kBackwardData,       // dx from dy and w
  kBackwardFilter,     // dw from x and dy
};

const char* pass_name(Pass pass);  // for example "backward data"

// A convolution over a batch.
struct ConvolutionShape {
  int64_t n = 1, c = 1, h = 1, w = 1;  // dimensions of x
  graph::Convolution op;
  // Elements from one pixel to the next; 0: packed. If the pitch is larger, x or y is a slice of the channels of a
  // wider tensor, as for a branch of a Concat.
  int64_t x_pitch = 0, y_pitch = 0;

  [[nodiscard]] int64_t p() const { return (h + 2 * op.pad_h - op.extent_h()) / op.stride_h + 1; }
  [[nodiscard]] int64_t q() const { return (w + 2 * op.pad_w - op.extent_w()) / op.stride_w + 1; }
  // Text such as "256x64x56x56 k64 3x3 s1 p1", followed by dilation, groups and pitches if they are not the default.
  // Equal texts get equal plans.
  [[nodiscard]] std::string text() const;
};

struct ConvolutionPass {
  ConvolutionShape shape;
  Pass pass = Pass::kForward;
  Type type = Type::kFloat32;
  // kForward: y = x (*) w + z + bias, where z has the form of y and the bias is always given (it may be 0): engines
  // that are not compiled at run time add both or none. kBackwardData: the result is added to what dx already contains.
  bool adds = false;

  [[nodiscard]] bool has_bias() const { return pass == Pass::kForward && (shape.op.bias || adds); }
  [[nodiscard]] std::string text() const;  // for example "forward float16 256x64x56x56 k64 3x3 s1 p1"; used as a key
};

// One convolution or fully connected layer of a network.
struct ConvolutionCase {
  graph::NodeId node = 0;
  ConvolutionShape shape;
  bool needs_dx = true;  // false: no node before the layer has parameters, so dx is not needed
};

// All convolutions and fully connected layers of a graph, in canonical order, for batches of `batch` images. A fully
// connected layer's bias becomes the bias of its convolution.
std::vector<ConvolutionCase> convolutions_of(const graph::Graph& graph, const graph::Shapes& shapes, int64_t batch);

}  // namespace dtrain::cuda
