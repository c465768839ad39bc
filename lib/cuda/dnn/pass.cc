#include "cuda/dnn/pass.h"

#include <fmt/core.h>

#include "base/overloaded.h"
#include "graph/flow.h"

namespace dtrain::cuda {

namespace {

// Returns "3", or "3x2" if the axes differ.
std::string both(int64_t h, int64_t w) {
  return h == w ? fmt::format("{}", h) : fmt::format("{}x{}", h, w);
}

}  // namespace

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
  if (op.dilation_h != 1 || op.dilation_w != 1) text += fmt::format(" d{}", both(op.dilation_h, op.dilation_w));
  if (op.groups != 1) text += fmt::format(" groups {}", op.groups);
  if (x_pitch != 0 && x_pitch != c) text += fmt::format(" x in {}", x_pitch);
  if (y_pitch != 0 && y_pitch != op.filters) text += fmt::format(" y in {}", y_pitch);
  return text;
}

std::string ConvolutionPass::text() const {
  const char* added = !adds ? "" : pass == Pass::kForward ? " + z" : " + dx";
  return fmt::format("{}{}{} {} {}", pass_name(pass), added, has_bias() ? " + bias" : "", type_name(type),
                     shape.text());
}

std::vector<ConvolutionCase> convolutions_of(const graph::Graph& graph, const graph::Shapes& shapes, int64_t batch) {
  const std::vector<char> wants_gradient = graph::wants_gradient(graph, shapes);
  std::vector<ConvolutionCase> cases;
  for (const graph::NodeId id : graph.canonical_order()) {
    const graph::Node& node = graph.node(id);
    const bool needs_dx = !node.data_inputs.empty() && wants_gradient[node.data_inputs[0]] != 0;
    std::visit(Overloaded{[&](const graph::Convolution& op) {
                            const Shape& x = shapes.output[node.data_inputs[0]];
                            cases.push_back({id, {batch, x[0], x[1], x[2], op}, needs_dx});
                          },
                          [&](const graph::FullyConnected& op) {
                            const int64_t c = element_count(shapes.output[node.data_inputs[0]]);
                            const graph::Convolution pixel{.filters = op.outputs, .bias = op.bias};
                            cases.push_back({id, {batch, c, 1, 1, pixel}, needs_dx});
                          },
                          [](const graph::Input&) {}, [](const graph::BatchNorm&) {}, [](const graph::Activation&) {},
                          [](const graph::Pooling&) {}, [](const graph::Concat&) {}, [](const graph::Add&) {},
                          [](const graph::Flatten&) {}, [](const graph::Identity&) {}, [](const graph::Scale&) {},
                          [](const graph::Dropout&) {}, [](const graph::LocalResponseNorm&) {},
                          [](const graph::SpatialTransformer&) {}, [](const graph::SoftmaxOutput&) {}},
               node.op);
  }
  return cases;
}

}  // namespace dtrain::cuda
