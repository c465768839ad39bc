#include "cuda/dnn/convolution.h"

#include <fmt/format.h>

#include "base/overloaded.h"

namespace dtrain::cuda {

namespace {

// "3", or "3x2" where the axes differ.
std::string both(int64_t h, int64_t w) {
  return h == w ? fmt::format("{}", h) : fmt::format("{}x{}", h, w);
}

void forward(OperationGraph& graph, const ConvolutionPass& pass, const Window& window, cudnnDataType_t type,
             const TensorExtent& extent, OperationGraph::Tensor x, OperationGraph::Tensor w) {
  const TensorExtent channels{.c = extent.c};
  if (pass.pass == Pass::kForward && pass.shape.op.bias) {
    OperationGraph::Tensor product = graph.passed_on({.n = extent.n, .c = extent.c, .h = extent.h, .w = extent.w});
    OperationGraph::Tensor bias = graph.tensor(Slot::kBias, type, channels);
    graph.convolution_forward(window, x, w, product);
    graph.add(product, bias, graph.tensor(Slot::kY, type, extent));
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

const char* type_name(Type type) {
  switch (type) {
    case Type::kFloat32: return "float32";
    case Type::kFloat16: return "float16";
    case Type::kBfloat16: return "bfloat16";
  }
  return "?";
}

const char* pass_name(Pass pass) {
  switch (pass) {
    case Pass::kForward: return "forward";
    case Pass::kForwardStatistics: return "forward + statistics";
    case Pass::kBackwardData: return "backward data";
    case Pass::kBackwardFilter: return "backward filter";
  }
  return "?";
}

std::string ConvolutionShape::text() const {
  std::string text = fmt::format("{}x{}x{}x{} k{} {}x{} s{} p{}", n, c, h, w, op.filters, op.kernel_h, op.kernel_w,
                                 both(op.stride_h, op.stride_w), both(op.pad_h, op.pad_w));
  if (op.groups != 1) text += fmt::format(" groups {}", op.groups);
  if (x_pitch != 0 && x_pitch != c) text += fmt::format(" x in {}", x_pitch);
  if (y_pitch != 0 && y_pitch != op.filters) text += fmt::format(" y in {}", y_pitch);
  return text;
}

std::string ConvolutionPass::text() const {
  const char* bias = pass == Pass::kForward && shape.op.bias ? " + bias" : "";
  return fmt::format("{}{} {} {}", pass_name(pass), bias, type_name(type), shape.text());
}

OperationGraph operations_of(const ConvolutionPass& pass) {
  const ConvolutionShape& shape = pass.shape;
  const graph::Convolution& op = shape.op;
  const cudnnDataType_t type = cudnn_type(pass.type);
  const Window window{op.stride_h, op.stride_w, op.pad_h, op.pad_w};
  const TensorExtent y_extent{shape.n, op.filters, shape.p(), shape.q(), shape.y_pitch};
  OperationGraph graph;
  OperationGraph::Tensor x = graph.tensor(Slot::kX, type, {shape.n, shape.c, shape.h, shape.w, shape.x_pitch});
  OperationGraph::Tensor w = graph.tensor(Slot::kW, type, {op.filters, shape.c / op.groups, op.kernel_h, op.kernel_w});
  switch (pass.pass) {
    case Pass::kForward:
    case Pass::kForwardStatistics: forward(graph, pass, window, type, y_extent, x, w); break;
    case Pass::kBackwardData:
      graph.convolution_backward_data(window, x, w, graph.tensor(Slot::kY, type, y_extent));
      break;
    case Pass::kBackwardFilter:
      graph.convolution_backward_filter(window, x, w, graph.tensor(Slot::kY, type, y_extent));
      break;
  }
  return graph;
}

std::vector<ConvolutionCase> convolutions_of(const graph::Graph& graph, const graph::Shapes& shapes, int64_t batch) {
  std::vector<bool> learned(graph.nodes().size(), false);  // by node: it has parameters, or something before it has
  for (const graph::ParameterInfo& parameter : shapes.parameters) learned[parameter.node] = true;
  std::vector<ConvolutionCase> cases;
  for (const graph::NodeId id : graph.canonical_order()) {
    const graph::Node& node = graph.node(id);
    bool needs_dx = false;
    for (const graph::NodeId input : node.inputs) needs_dx = needs_dx || learned[input];
    learned[id] = learned[id] || needs_dx;
    std::visit(Overloaded{[&](const graph::Convolution& op) {
                            const Shape& x = shapes.output[node.inputs[0]];
                            cases.push_back({id, {batch, x[0], x[1], x[2], op}, needs_dx});
                          },
                          [&](const graph::FullyConnected& op) {
                            const int64_t c = element_count(shapes.output[node.inputs[0]]);
                            const graph::Convolution pixel{.filters = op.outputs, .bias = op.bias};
                            cases.push_back({id, {batch, c, 1, 1, pixel}, needs_dx});
                          },
                          [](const auto&) {}},
               node.op);
  }
  return cases;
}

}  // namespace dtrain::cuda
