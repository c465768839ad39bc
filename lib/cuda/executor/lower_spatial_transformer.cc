#include "cuda/executor/lower.h"
#include "cuda/kernels/elementwise.h"
#include "cuda/kernels/sampling.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

// The gradient with respect to the map, converted to the network's type.
Map converted(Lowering& l, NodeId id, ValueId floats, const Map& like) {
  Map dx = l.program().like(like);
  if (dx.type == Type::kFloat32) {
    dx.value = floats;
    return dx;
  }
  l.program().kernel(id, convert, {{floats}, {dx.value}}, [=](const Addresses& at) {
    return Convert{.to_type = dx.type, .count = dx.rows() * dx.channels, .from = at.at(floats), .to = at.at(dx.value)};
  });
  return dx;
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::SpatialTransformer&) {
  const NodeId map = l.input_node(id), numbers = l.input_node(id, 1);
  const Map x = l.input(id), t = l.plain_input(id, 1), y = l.make_output(id);
  const SamplingShape shape{.n = x.n, .channels = x.channels, .h = x.h, .w = x.w, .p = y.h, .q = y.w};
  l.program().kernel(id, sample, {{x.value, t.value}, {y.value}}, [=](const Addresses& at) {
    return Sample{x.type, shape, at.in(x), at.in(t), at.out(y)};
  });
  l.set_output(id, y);
  return [&l, id, map, numbers, shape, x, t] {
    const Map dy = l.gradient(id);
    const bool by_map = l.wants_gradient(map);
    const Map dt = l.program().like(t);
    const ValueId floats = by_map ? l.program().floats(x.rows() * x.channels) : kNoValue;
    l.program().kernel(
        id, sample_backward, {{x.value, t.value, dy.value}, {dt.value, floats}}, [=](const Addresses& at) {
          return SampleBackward{x.type, shape, at.in(x), at.in(t), at.in(dy), at.out(dt), at.at<float>(floats)};
        });
    l.contribute(numbers, dt);
    if (by_map) l.contribute(map, converted(l, id, floats, x));
  };
}

}  // namespace dtrain::cuda
