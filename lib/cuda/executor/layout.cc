#include "cuda/executor/layout.h"

#include <algorithm>

#include "base/overloaded.h"
#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::cuda {

namespace {

using graph::NodeId;

constexpr int64_t kImageChannels = 3;

// The channels with which images of 3 channels are stored for convolutions. In 16-bit types, cuDNN's engines with
// tensor cores read 8 channels. If there are fewer, most of these engines first copy the images into a workspace with
// 8, which takes 206 MB for a stem convolution of 256 images of 224x224 and moves 411 MB more than reading images
// stored with 4. In bfloat16 all of them do so, in the forward pass and for the gradient of the filters, so images are
// stored with 8. In float16 the forward pass has an engine for 4. Storing 8 would save 103 MB in a training step, but
// the forward pass would multiply twice as many values, and inference would move 206 MB more.
int64_t stored_channels(Type type) {
  switch (type) {
    case Type::kFloat32: return kImageChannels;
    case Type::kFloat16: return 4;
    case Type::kBfloat16: return 8;
  }
  return kImageChannels;
}

bool pads(const graph::Node& node, int64_t channels, Type type) {
  const auto* op = std::get_if<graph::Convolution>(&node.op);
  return op != nullptr && op->groups == 1 && channels == kImageChannels && type != Type::kFloat32;
}

MapForm form_of(const Shape& shape) {
  return shape.size() == 3 ? MapForm{shape[1], shape[2], shape[0]} : MapForm{1, 1, shape[0]};
}

class Chooser {
 public:
  Chooser(const graph::Graph& graph, const graph::Shapes& shapes, const exec::Options& options)
      : graph_(graph), shapes_(shapes), type_(options.dtype), readers_(graph::readers(graph)) {
    const size_t count = graph.nodes().size();
    layout_.maps.resize(count);
    layout_.slices.resize(count);
    layout_.wants_gradient = graph::wants_gradient(graph, shapes);
    layout_.wants_sum.resize(count);
    for (NodeId id = 0; id < count && !options.keep_all; id++) layout_.wants_sum[id] = wants_sum(id) ? 1 : 0;
  }

  Layout run() && {
    for (const NodeId id : graph_.canonical_order()) layout_.maps[id] = map_of(id);
    for (const auto& parameter : shapes_.parameters) layout_.weights.push_back(weight_of(parameter));
    for (const NodeId id : graph_.canonical_order()) {
      if (std::holds_alternative<graph::Concat>(graph_.node(id).op)) find_slices(id);
    }
    return std::move(layout_);
  }

 private:
  [[nodiscard]] bool wants_sum(NodeId id) const {
    const auto* norm = std::get_if<graph::BatchNorm>(&graph_.node(id).op);
    return norm != nullptr && norm->fix_gamma && layout_.wants_gradient[graph_.node(id).data_inputs[0]] == 0 &&
           readers_[id].size() == 1 && std::holds_alternative<graph::Convolution>(graph_.node(readers_[id][0]).op);
  }
  [[nodiscard]] const MapForm& input_map(NodeId id) const { return layout_.maps[graph_.node(id).data_inputs[0]]; }

  // The form of a node's output. Elementwise operators keep the storage order of their input, even after a Flatten.
  MapForm map_of(NodeId id) {
    const MapForm plain = form_of(shapes_.output[id]);
    return std::visit(
        Overloaded{
            [&](const graph::Input&) { return image_form(id, plain); },
            [&](const graph::Flatten&) { return input_map(id); }, [&](const graph::Identity&) { return input_map(id); },
            [&](const graph::Activation&) { return input_map(id); }, [&](const graph::Scale&) { return input_map(id); },
            [&](const graph::Dropout&) { return input_map(id); },
            [&](const graph::LocalResponseNorm&) { return plain; },
            [&](const graph::SpatialTransformer&) { return plain; },
            [&](const graph::Add&) { return alike(id) ? input_map(id) : plain; },
            [&](const graph::Convolution&) { return plain; }, [&](const graph::FullyConnected&) { return plain; },
            [&](const graph::BatchNorm&) { return image_form(id, plain); },
            [&](const graph::Pooling&) { return plain; }, [&](const graph::Concat&) { return plain; },
            [&](const graph::SoftmaxOutput&) { return plain; }},
        graph_.node(id).op);
  }

  [[nodiscard]] bool alike(NodeId id) const {
    return std::ranges::all_of(graph_.node(id).data_inputs,
                               [&](NodeId input) { return layout_.maps[input] == input_map(id); });
  }

  // Whether the node's output is read, and only by convolutions that want additional channels.
  [[nodiscard]] bool is_padded(NodeId id, int64_t channels) const {
    return !readers_[id].empty() && std::ranges::all_of(readers_[id], [&](NodeId reader) {
      const graph::Node& node = graph_.node(reader);
      return std::holds_alternative<graph::Identity>(node.op) ? is_padded(reader, channels)
                                                              : pads(node, channels, type_);
    });
  }

  // The form of images, or of images that a batch normalization has normalized, as their readers want them.
  [[nodiscard]] MapForm image_form(NodeId id, MapForm plain) const {
    if (is_padded(id, plain.channels)) plain.zeros = stored_channels(type_) - plain.channels;
    return plain;
  }

  [[nodiscard]] WeightForm weight_of(const graph::ParameterInfo& parameter) const {
    const int64_t count = element_count(parameter.shape);
    if (parameter.kind == ParameterKind::kGamma || parameter.kind == ParameterKind::kBeta) {
      return {.channels = count, .stored_channels = count};
    }
    if (parameter.kind == ParameterKind::kBias) return {.type = type_, .channels = count, .stored_channels = count};
    const WeightForm first = form_for(parameter, parameter.uses[0]);
    const bool same = std::ranges::all_of(
        parameter.uses, [&](const graph::TensorUse& use) { return form_for(parameter, use) == first; });
    return same ? first : plain_form(parameter);
  }

  // The form that suits one of the nodes that read the weight.
  [[nodiscard]] WeightForm form_for(const graph::ParameterInfo& parameter, const graph::TensorUse& use) const {
    const graph::Node& node = graph_.node(use.node);
    WeightForm form = plain_form(parameter);
    if (std::holds_alternative<graph::Convolution>(node.op)) {
      if (pads(node, form.channels, type_)) form.stored_channels = stored_channels(type_);
      return form;
    }
    // For a fully connected layer, the pixels of its input correspond to the taps of a filter.
    const MapForm& input = layout_.maps[node.data_inputs[0]];
    form.taps = input.h * input.w;
    form.channels = form.stored_channels = form.channels / form.taps;
    return form;
  }

  [[nodiscard]] WeightForm plain_form(const graph::ParameterInfo& parameter) const {
    const Shape& shape = parameter.shape;
    const int64_t taps = shape.size() == 4 ? shape[2] * shape[3] : 1;
    const int64_t channels = element_count(shape) / shape[0] / taps;
    return {type_, shape[0], channels, taps, channels};
  }

  // Determines which inputs of a Concat are slices. dtrain's own kernels can write with any pitch. cuDNN's engines
  // first copy a slice to packed memory (test/cuda/dnn/plans_sm90.txt), so tensors that they write or read are not made
  // slices.
  void find_slices(NodeId concat) {
    int64_t channel = 0;
    for (const NodeId input : graph_.node(concat).data_inputs) {
      const bool own_kernel = std::visit(
          Overloaded{[](const graph::BatchNorm&) { return true; }, [](const graph::Activation&) { return true; },
                     [](const graph::Pooling&) { return true; }, [](const graph::Add&) { return true; },
                     [](const graph::Scale&) { return true; }, [](const graph::LocalResponseNorm&) { return true; },
                     [](const graph::SpatialTransformer&) { return true; },
                     // false, because in inference a Dropout has no kernel
                     [](const graph::Dropout&) { return false; }, [](const graph::Input&) { return false; },
                     [](const graph::Convolution&) { return false; },
                     [](const graph::FullyConnected&) { return false; }, [](const graph::Concat&) { return false; },
                     [](const graph::Flatten&) { return false; }, [](const graph::Identity&) { return false; },
                     [](const graph::SoftmaxOutput&) { return false; }},
          graph_.node(input).op);
      const bool as_expected = layout_.maps[input] == form_of(shapes_.output[input]);
      if (own_kernel && as_expected && readers_[input].size() == 1) layout_.slices[input] = Slice{concat, channel};
      channel += shapes_.output[input][0];
    }
  }

  const graph::Graph& graph_;
  const graph::Shapes& shapes_;
  Type type_;
  std::vector<std::vector<NodeId>> readers_;  // indexed by node: the nodes that read its output
  Layout layout_;
};

}  // namespace

Layout choose_layout(const graph::Graph& graph, const graph::Shapes& shapes, const exec::Options& options) {
  return Chooser(graph, shapes, options).run();
}

}  // namespace dtrain::cuda
