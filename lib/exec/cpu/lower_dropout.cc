#include <algorithm>
#include <cstring>

#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"
#include "exec/cpu/parallel.h"
#include "exec/dropout.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

namespace {

// Sets y to the kept elements of x, multiplied by the rule's factor. Both are [rows, each]; keys [rows].
void keep_elements(const DropRule& rule, const uint64_t* keys, int64_t rows, int64_t each, const float* x, float* y) {
  constexpr int64_t kCost = 8;  // the cost of drawing a random number, relative to that of one element
  parallel_shares(rows, rows * each * kCost, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      const uint64_t key = drop_key(rule, keys[row]);
      for (int64_t i = 0; i < each; i++) {
        const bool dropped = is_dropped(rule, key, static_cast<uint64_t>(i));
        y[row * each + i] = dropped ? 0.0f : x[row * each + i] * rule.factor;
      }
    }
  });
}

ValueId emit_keep(Lowering& l, NodeId id, const DropRule& rule, ValueId keys, ValueId x) {
  const int64_t rows = l.options().batch_size;
  const int64_t each = static_cast<int64_t>(l.md(x).get_size() / sizeof(float)) / rows;
  const ValueId y = l.program().tensor(l.md(x));
  l.program().kernel(id, "dropout",
                     [rule, rows, each](void* const* p) {
                       keep_elements(rule, static_cast<const uint64_t*>(p[1]), rows, each,
                                     static_cast<const float*>(p[0]), static_cast<float*>(p[2]));
                     },
                     {in(x), in(keys), out(y)}, {x});
  return y;
}

}  // namespace

// Lowers a dropout in row-major layout, because an element's number is its position in [c, h, w]. (Vectors are
// row-major anyway.) The keys are copied, because the caller's are valid only during the forward pass.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Dropout& op) {
  if (!l.training()) return lower_node(l, id, graph::Identity{});
  const DropRule rule = drop_rule(l.node(id), op);
  const int64_t rows = l.options().batch_size;
  const ValueId keys = l.program().tensor(plain_md({rows * 2}));  // a key has 8 bytes, as many as two floats
  l.program().kernel(id, "copy of the keys",
                     [rows, batch = l.batch()](void* const* p) {
                       std::memcpy(p[0], batch->keys.data(), static_cast<size_t>(rows) * sizeof(uint64_t));
                     },
                     {out(keys)});
  const Md plain = plain_md(l.dims(id));
  l.set_output(id, emit_keep(l, id, rule, keys, l.program().converted(id, l.input(id), plain)));
  return [&l, id, rule, keys, plain] {
    l.contribute(l.input_node(id), emit_keep(l, id, rule, keys, l.gradient(id, plain)));
  };
}

}  // namespace dtrain::exec::cpu
