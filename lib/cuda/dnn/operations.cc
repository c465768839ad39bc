#include "cuda/dnn/operations.h"

#include <algorithm>

namespace dtrain::cuda {

namespace {

// The first id of tensors that are passed on without being stored; the ids of slots are smaller.
constexpr int64_t kFirstPassedOn = 1000;

// Makes the operation overwrite its result, or add to it.
void set_factors(Descriptor& operation, cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta,
                 bool adds = false) {
  operation.set(alpha, 1.0F);
  operation.set(beta, adds ? 1.0F : 0.0F);
}

}  // namespace

const char* slot_name(Slot slot) {
  switch (slot) {
    case Slot::kX: return "x";
    case Slot::kW: return "w";
    case Slot::kY: return "y";
    case Slot::kBias: return "bias";
    case Slot::kSum: return "sum";
    case Slot::kSquareSum: return "square_sum";
    case Slot::kZ: return "z";
  }
  return "?";
}

OperationGraph::Tensor OperationGraph::make_tensor(int64_t id, cudnnDataType_t type, const TensorExtent& extent,
                                                   bool is_virtual) {
  const int64_t pitch = extent.pitch == 0 ? extent.c : extent.pitch;
  const std::array<int64_t, 4> dims = {extent.n, extent.c, extent.h, extent.w};
  const std::array<int64_t, 4> strides = {extent.h * extent.w * pitch, 1, extent.w * pitch, pitch};
  Descriptor& tensor = parts_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(dims));
  tensor.set_all(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  tensor.finalize();
  return tensor;
}

OperationGraph::Tensor OperationGraph::tensor(Slot slot, cudnnDataType_t type, const TensorExtent& extent) {
  slots_.push_back(slot);
  return make_tensor(static_cast<int64_t>(slot), type, extent, false);
}

OperationGraph::Tensor OperationGraph::passed_on(const TensorExtent& extent) {
  return make_tensor(kFirstPassedOn + passed_on_count_++, CUDNN_DATA_FLOAT, extent, true);
}

const Descriptor& OperationGraph::convolution(const Window& window) {
  const std::array<int64_t, 2> strides = {window.stride_h, window.stride_w};
  const std::array<int64_t, 2> pads = {window.pad_h, window.pad_w};
  const std::array<int64_t, 2> dilations = {window.dilation_h, window.dilation_w};
  Descriptor& convolution = parts_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set_all(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const int64_t>(pads));
  convolution.set_all(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const int64_t>(pads));
  convolution.set_all(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const int64_t>(dilations));
  convolution.set_all(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const int64_t>(strides));
  convolution.finalize();
  return convolution;
}

Descriptor& OperationGraph::operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(type);
}

void OperationGraph::convolution_forward(const Window& window, Tensor x, Tensor w, Tensor y) {
  Descriptor& forward = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  forward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution(window));
  forward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  forward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  forward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  set_factors(forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  forward.finalize();
}

void OperationGraph::convolution_backward_data(const Window& window, Tensor dx, Tensor w, Tensor dy, bool adds) {
  Descriptor& backward = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution(window));
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
  set_factors(backward, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              adds);
  backward.finalize();
}

void OperationGraph::convolution_backward_filter(const Window& window, Tensor x, Tensor dw, Tensor dy) {
  Descriptor& backward = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution(window));
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
  backward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
  set_factors(backward, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  backward.finalize();
}

void OperationGraph::add(Tensor a, Tensor b, Tensor y) {
  Descriptor& mode = parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  mode.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
  mode.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  mode.finalize();
  Descriptor& add = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  add.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
  add.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
  add.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  add.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add.finalize();
}

void OperationGraph::statistics(Tensor x, Tensor sum, Tensor square_sum) {
  Descriptor& statistics = operation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM);
  statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
  statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x);
  statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
  statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, square_sum);
  statistics.finalize();
}

Descriptor OperationGraph::finish(const Device& device) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const Descriptor>(operations_));
  device.bind_graph(graph);
  graph.finalize();
  return graph;
}

}  // namespace dtrain::cuda
