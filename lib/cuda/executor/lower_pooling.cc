#include "cuda/executor/lower.h"
#include "cuda/kernels/pooling.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

struct Pool {
  NodeId id;
  PoolingShape shape;
  Divide divide;
  Map x, y;
  ValueId where = kNoValue;  // index of each maximum in its window
};

PoolingShape shape_of(const graph::Pooling& op, const Map& x, const Map& y) {
  PoolingShape shape{.n = x.n, .h = x.h, .w = x.w, .channels = x.channels, .p = y.h, .q = y.w};
  if (op.global) {
    shape.kernel_h = x.h;
    shape.kernel_w = x.w;
    return shape;
  }
  shape.kernel_h = op.kernel_h;
  shape.kernel_w = op.kernel_w;
  shape.stride_h = op.stride_h;
  shape.stride_w = op.stride_w;
  shape.pad_h = op.pad_h;
  shape.pad_w = op.pad_w;
  return shape;
}

Divide divide_of(const graph::Pooling& op) {
  if (op.kind == graph::Pooling::Kind::kSum) return Divide::kNot;
  switch (op.divisor) {
    case graph::Pooling::Divisor::kPadded: return Divide::kByPadded;
    case graph::Pooling::Divisor::kKernel: return Divide::kByKernel;
    case graph::Pooling::Divisor::kReal: return Divide::kByReal;
  }
  return Divide::kByPadded;
}

void emit_max(Lowering& l, Pool& pool) {
  if (l.training()) {
    pool.where =
        l.program().bytes(static_cast<size_t>(pool.y.rows() * pool.y.channels * max_pooling_index_bytes(pool.shape)));
  }
  const auto& [id, shape, divide, x, y, where] = pool;
  l.program().kernel(id, max_pooling, {{x.value}, {y.value, where}}, [=, p = pool](const Addresses& at) {
    return MaxPooling{p.x.type, p.shape, at.in(p.x), at.out(p.y), at.at(p.where)};
  });
}

void emit_average(Lowering& l, const Pool& p) {
  l.program().kernel(p.id, average_pooling, {{p.x.value}, {p.y.value}}, [p](const Addresses& at) {
    return AveragePooling{p.x.type, p.shape, p.divide, at.in(p.x), at.out(p.y)};
  });
}

void emit_backward(Lowering& l, const Pool& p, bool max) {
  const Map dy = l.gradient(p.id);
  const NodeId input = l.input_node(p.id);
  const Map add = l.take_term(input), dx = l.program().like(p.x);
  Uses uses{{dy.value, add.value, p.where}, {dx.value}, {in_place(add, dx)}};
  if (max) {
    l.program().kernel(p.id, max_pooling_backward, uses, [=](const Addresses& at) {
      return MaxPoolingBackward{dx.type, p.shape, at.in(dy), at.in(add), at.at(p.where), at.out(dx)};
    });
  } else {
    l.program().kernel(p.id, average_pooling_backward, uses, [=](const Addresses& at) {
      return AveragePoolingBackward{dx.type, p.shape, p.divide, at.in(dy), at.in(add), at.out(dx)};
    });
  }
  l.contribute(input, dx, true);
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Pooling& op) {
  const Map x = l.input(id), y = l.make_output(id);
  const bool max = op.kind == graph::Pooling::Kind::kMax;
  Pool pool{.id = id, .shape = shape_of(op, x, y), .divide = divide_of(op), .x = x, .y = y};
  if (max) {
    emit_max(l, pool);
  } else {
    emit_average(l, pool);
  }
  l.set_output(id, y);
  return [&l, pool, max] { emit_backward(l, pool, max); };
}

}  // namespace dtrain::cuda
