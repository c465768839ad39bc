#include "cuda/dnn/convolution.h"

namespace dtrain::cuda {

namespace {

void forward(OperationGraph& graph, const ConvolutionPass& pass, const Window& window, cudnnDataType_t type,
             const TensorExtent& extent, OperationGraph::Tensor x, OperationGraph::Tensor w) {
  const TensorExtent channels{.c = extent.c};
  if (pass.has_bias()) {
    const TensorExtent packed{.n = extent.n, .c = extent.c, .h = extent.h, .w = extent.w};
    const Descriptor* product = &graph.passed_on(packed);
    graph.convolution_forward(window, x, w, *product);
    if (pass.adds) {
      OperationGraph::Tensor with_z = graph.passed_on(packed);
      graph.add(*product, graph.tensor(Slot::kZ, type, packed), with_z);
      product = &with_z;
    }
    OperationGraph::Tensor bias = graph.tensor(Slot::kBias, type, channels);
    graph.add(*product, bias, graph.tensor(Slot::kY, type, extent));
    return;
  }
  OperationGraph::Tensor y = graph.tensor(Slot::kY, type, extent);
  graph.convolution_forward(window, x, w, y);
  if (pass.pass == Pass::kForwardStatistics) {
    OperationGraph::Tensor sum = graph.tensor(Slot::kSum, CUDNN_DATA_FLOAT, channels);
    graph.statistics(y, sum, graph.tensor(Slot::kSquareSum, CUDNN_DATA_FLOAT, channels));
  }
}

}  // namespace

cudnnDataType_t cudnn_type(Type type) {
  switch (type) {
    case Type::kFloat32: return CUDNN_DATA_FLOAT;
    case Type::kFloat16: return CUDNN_DATA_HALF;
    case Type::kBfloat16: return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

OperationGraph operations_of(const ConvolutionPass& pass) {
  const ConvolutionShape& shape = pass.shape;
  const graph::Convolution& op = shape.op;
  const cudnnDataType_t type = cudnn_type(pass.type);
  const Window window{op.stride_h, op.stride_w, op.pad_h, op.pad_w, op.dilation_h, op.dilation_w};
  const TensorExtent y_extent{shape.n, op.filters, shape.p(), shape.q(), shape.y_pitch};
  OperationGraph graph;
  OperationGraph::Tensor x = graph.tensor(Slot::kX, type, {shape.n, shape.c, shape.h, shape.w, shape.x_pitch});
  OperationGraph::Tensor w = graph.tensor(Slot::kW, type, {op.filters, shape.c / op.groups, op.kernel_h, op.kernel_w});
  switch (pass.pass) {
    case Pass::kForward:
    case Pass::kForwardStatistics: forward(graph, pass, window, type, y_extent, x, w); break;
    case Pass::kBackwardData:
      graph.convolution_backward_data(window, x, w, graph.tensor(Slot::kY, type, y_extent), pass.adds);
      break;
    case Pass::kBackwardFilter:
      graph.convolution_backward_filter(window, x, w, graph.tensor(Slot::kY, type, y_extent));
      break;
  }
  return graph;
}

}  // namespace dtrain::cuda
