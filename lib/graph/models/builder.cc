#include "graph/models/builder.h"

#include <fmt/core.h>

#include "base/overloaded.h"
#include "graph/symbol/operators.h"

namespace dtrain::graph {

namespace {

std::string automatic_name(const Op& op) {
  return std::visit(
      Overloaded{[](const Input&) { return "data"; }, [](const Convolution&) { return "convolution"; },
                 [](const FullyConnected&) { return "fullyconnected"; }, [](const BatchNorm&) { return "batchnorm"; },
                 [](const Activation&) { return "activation"; }, [](const Pooling&) { return "pooling"; },
                 [](const Concat&) { return "concat"; }, [](const Add&) { return "_plus"; },
                 [](const Flatten&) { return "flatten"; }, [](const Identity&) { return "identity"; },
                 [](const Scale&) { return "_mulscalar"; }, [](const LocalResponseNorm&) { return "lrn"; },
                 [](const Dropout&) { return "dropout"; },
                 [](const SpatialTransformer&) { return "spatialtransformer"; },
                 [](const SoftmaxOutput&) { return "softmaxoutput"; }},
      op);
}

}  // namespace

NodeId Builder::add(const std::string& name, Op op, const std::vector<NodeId>& inputs) {
  const NodeId id = graph_.add(name, op, inputs);
  if (std::holds_alternative<Convolution>(op)) state(id, stated_.convolution);
  if (std::holds_alternative<BatchNorm>(op)) state(id, stated_.batch_norm);
  if (std::holds_alternative<Pooling>(op)) state(id, stated_.pooling);
  return id;
}

NodeId Builder::add(Op op, const std::vector<NodeId>& inputs) {
  const std::string prefix = automatic_name(op);
  return add(fmt::format("{}{}", prefix, counts_[prefix]++), op, inputs);
}

void Builder::skip_names(const Op& op, int64_t count) {
  counts_[automatic_name(op)] += count;
}

void Builder::state(NodeId node, std::string_view stated) {
  const Node& n = graph_.node(node);
  graph_.set_spelling(node, {.attributes = stated_attributes(n.op, n.data_inputs.size(), stated)});
}

Convolution convolution(int64_t filters, int64_t kernel, int64_t stride, int64_t pad) {
  return {.filters = filters,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad};
}

Convolution convolution_no_bias(int64_t filters, int64_t kernel, int64_t stride, int64_t pad) {
  Convolution op = convolution(filters, kernel, stride, pad);
  op.bias = false;
  return op;
}

Pooling pooling(Pooling::Kind kind, int64_t kernel, int64_t stride, int64_t pad, Pooling::Rounding rounding,
                Pooling::Divisor divisor) {
  return {.kind = kind,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad,
          .rounding = rounding,
          .divisor = divisor};
}

}  // namespace dtrain::graph
