#include "exec/cpu/kernels/pooling.h"

#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

namespace {

// The layout of the array that holds the positions of the maxima.
Md places_md(const BlockedShape& y) {
  return {{y.elements()}, dnnl::memory::data_type::s32, dnnl::memory::format_tag::a};
}

Lowering::EmitBackward lower_max(Lowering& l, NodeId id, const PoolingWindow& window, ValueId x, ValueId y) {
  const ValueId where = l.program().tensor(places_md(window.y));
  l.program().kernel(id, "max pooling",
                     [window](void* const* p) {
                       max_pooling_forward(window, static_cast<const float*>(p[0]), static_cast<float*>(p[1]),
                                           static_cast<int32_t*>(p[2]));
                     },
                     {in(x), out(y), out(where)});
  return [&l, id, window, where, dx_layout = l.md(x), dy_layout = l.md(y)] {
    const ValueId dy = l.gradient(id, dy_layout);
    const ValueId dx = l.program().tensor(dx_layout);
    l.program().kernel(id, "max pooling backward",
                       [window](void* const* p) {
                         max_pooling_backward(window, static_cast<const float*>(p[0]),
                                              static_cast<const int32_t*>(p[1]), static_cast<float*>(p[2]));
                       },
                       {in(dy), in(where), out(dx)});
    l.contribute(l.input_node(id), dx);
  };
}

Lowering::EmitBackward lower_average(Lowering& l, NodeId id, const PoolingWindow& window, ValueId x, ValueId y) {
  l.program().kernel(id, "average pooling",
                     [window](void* const* p) {
                       average_pooling_forward(window, static_cast<const float*>(p[0]), static_cast<float*>(p[1]));
                     },
                     {in(x), out(y)});
  return [&l, id, window, dx_layout = l.md(x), dy_layout = l.md(y)] {
    const ValueId dy = l.gradient(id, dy_layout);
    const ValueId dx = l.program().tensor(dx_layout);
    l.program().kernel(id, "average pooling backward",
                       [window](void* const* p) {
                         average_pooling_backward(window, static_cast<const float*>(p[0]), static_cast<float*>(p[1]));
                       },
                       {in(dy), out(dx)});
    l.contribute(l.input_node(id), dx);
  };
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Pooling& op) {
  const ValueId x = l.blocked_input(id);
  const BlockedShape x_shape = *blocked_shape(l.md(x));
  const BlockedShape y_shape = shape_in(x_shape.order, l.dims(id));
  const ValueId y = l.program().tensor(md_in(x_shape.order, l.dims(id)));
  l.set_output(id, y);
  const PoolingWindow window = resolve_window(op, x_shape, y_shape);
  return op.kind == graph::Pooling::Kind::kMax ? lower_max(l, id, window, x, y) : lower_average(l, id, window, x, y);
}

}  // namespace dtrain::exec::cpu
