// Nodes with little or no computation: input, flatten, identity, scale, concat, softmax.
#include "cuda/executor/lower.h"
#include "cuda/kernels/input.h"
#include "cuda/kernels/softmax.h"

namespace dtrain::cuda {

using graph::NodeId;

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Input&) {
  const Map y = l.make_output(id);
  const DeviceInput& images = l.pass_input().inputs[l.input_of(id)];
  if (images.pixels != nullptr) {
    l.program().kernel(id, image_input, {{}, {y.value}}, [=](const Addresses& at) {
      return ImageInput{.n = y.n,
                        .h = y.h,
                        .w = y.w,
                        .channels = y.channels,
                        .stored_channels = y.pitch,
                        .pixels = images.pixels,
                        .blue_first = true,
                        .mirrored = images.mirrored,
                        .mean = images.mean,
                        .mean_image = images.mean_image,
                        .factor = images.factor,
                        .type = y.type,
                        .out = at.at(y.value)};
    });
  } else {
    l.program().kernel(id, planar_input, {{}, {y.value}}, [=](const Addresses& at) {
      return PlanarInput{.n = y.n,
                         .h = y.h,
                         .w = y.w,
                         .channels = y.channels,
                         .stored_channels = y.pitch,
                         .x = images.floats,
                         .type = y.type,
                         .out = at.at(y.value)};
    });
  }
  l.set_output(id, y);
  return [] {};
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Identity&) {
  l.set_output(id, l.input(id));
  return [&l, id] { l.contribute(l.input_node(id), l.gradient(id)); };
}

// Flattens without changing the storage order. Nodes that need the order c, h, w call plain_input.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Flatten&) {
  return lower_node(l, id, graph::Identity{});
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Scale& op) {
  const Map x = l.input(id), y = l.make_output(id);
  l.emit_sum(id, {x}, y, false, op.factor);
  l.set_output(id, y);
  return [&l, id, factor = op.factor] {
    const Map dy = l.gradient(id);
    const Map dx = l.program().like(dy);
    l.emit_sum(id, {dy}, dx, false, factor);
    l.contribute(l.input_node(id), dx);
  };
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Concat&) {
  Map y = l.output(id);
  if (!y.exists()) y = l.make_output(id);
  l.set_output(id, y);
  int64_t channel = 0;
  std::vector<int64_t> channels;
  for (size_t i = 0; i < l.node(id).data_inputs.size(); i++) {
    const Map x = l.plain_input(id, i);
    channels.push_back(x.channels);
    if (!l.writes_into(l.input_node(id, i), id)) l.emit_sum(id, {x}, l.program().slice(y, channel, x.channels), false);
    channel += x.channels;
  }
  return [&l, id, channels] {
    const Map dy = l.gradient(id);
    int64_t begin = 0;
    for (size_t i = 0; i < channels.size(); i++) {
      l.contribute(l.input_node(id, i), l.program().slice(dy, begin, channels[i]));
      begin += channels[i];
    }
  };
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::SoftmaxOutput& op) {
  const Map x = l.packed(id, l.plain_input(id));
  Map p = x;
  p.type = Type::kFloat32;
  p.value = l.program().floats(p.rows() * p.channels);
  l.program().kernel(id, softmax, {{x.value}, {p.value}}, [=](const Addresses& at) {
    return Softmax{x.type, x.rows(), x.channels, at.at(x.value), at.at<float>(p.value)};
  });
  l.set_output(id, p);
  return [&l, id, x, p, op] {
    const Map dx = l.program().like(x);
    const PassInput& pass = l.pass_input();
    const float* labels = pass.labels + l.label_of(id);
    const float* scale = pass.loss_scale == nullptr ? nullptr : &pass.loss_scale->scale;
    const auto label_stride = static_cast<int64_t>(l.label_count());
    l.program().kernel(id, softmax_backward, {{p.value}, {dx.value}}, [=](const Addresses& at) {
      return SoftmaxBackward{.type = dx.type,
                             .rows = dx.rows(),
                             .classes = dx.channels,
                             .smooth_alpha = op.smooth_alpha,
                             .factor = op.factor(dx.rows()),
                             .p = at.at<float>(p.value),
                             .labels = labels,
                             .label_stride = label_stride,
                             .loss_scale = scale,
                             .dx = at.at(dx.value)};
    });
    l.contribute(l.input_node(id), dx);
  };
}

}  // namespace dtrain::cuda
