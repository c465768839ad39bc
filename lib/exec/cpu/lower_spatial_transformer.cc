#include <algorithm>

#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"
#include "exec/cpu/parallel.h"
#include "exec/sampling.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

namespace {

// Runs work(image) for all images, on several threads if that is worthwhile. For this decision, each element of the
// output counts as kCost elements, because sampling it takes some arithmetic.
template <class Work>
void for_each_image(const Sampling& s, int64_t images, const Work& work) {
  constexpr int64_t kCost = 16;
  parallel_shares(images, images * s.output_height * s.output_width * s.channels * kCost,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t image = begin; image < end; image++) work(image);
                  });
}

int64_t elements(const Sampling& s) {
  return s.channels * s.height * s.width;
}
int64_t output_elements(const Sampling& s) {
  return s.channels * s.output_height * s.output_width;
}

constexpr int64_t kNumbers = 6;  // number of parameters of a transformation

void forward(const Sampling& s, int64_t images, const float* x, const float* t, float* y) {
  for_each_image(s, images,
                 [&](int64_t i) { sample_map(s, x + i * elements(s), t + i * kNumbers, y + i * output_elements(s)); });
}

// Computes the gradients with respect to the map (dx, which may be null) and the transformation.
void backward(const Sampling& s, int64_t images, const float* x, const float* t, const float* dy, float* dx,
              float* dt) {
  std::fill_n(dt, images * kNumbers, 0.0f);
  if (dx != nullptr) std::fill_n(dx, images * elements(s), 0.0f);
  for_each_image(s, images, [&](int64_t i) {
    sample_map_backward(s, x + i * elements(s), t + i * kNumbers, dy + i * output_elements(s),
                        dx == nullptr ? nullptr : dx + i * elements(s), dt + i * kNumbers);
  });
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::SpatialTransformer&) {
  const NodeId map = l.input_node(id), numbers = l.input_node(id, 1);
  const Dims from = l.dims(map), to = l.dims(id);
  const Sampling s{
      .channels = from[1], .height = from[2], .width = from[3], .output_height = to[2], .output_width = to[3]};
  const ValueId x = l.program().converted(id, l.input(id), plain_md(from));
  const ValueId t = l.program().converted(id, l.input(id, 1), plain_md(l.dims(numbers)));
  const ValueId y = l.program().tensor(plain_md(to));
  l.program().kernel(id, "spatial transformer",
                     [s, images = to[0]](void* const* p) {
                       forward(s, images, static_cast<const float*>(p[0]), static_cast<const float*>(p[1]),
                               static_cast<float*>(p[2]));
                     },
                     {in(x), in(t), out(y)});
  l.set_output(id, y);
  return [&l, id, map, numbers, s, x, t, to] {
    const ValueId dy = l.gradient(id, plain_md(to));
    const ValueId dt = l.program().tensor(l.md(t));
    std::vector<Arg> args = {in(x), in(t), in(dy), out(dt)};
    const bool by_map = l.wants_gradient(map);
    const ValueId dx = by_map ? l.program().tensor(l.md(x)) : kNoValue;
    if (by_map) args.push_back(out(dx));
    l.program().kernel(
        id, "spatial transformer backward",
        [s, images = to[0], by_map](void* const* p) {
          backward(s, images, static_cast<const float*>(p[0]), static_cast<const float*>(p[1]),
                   static_cast<const float*>(p[2]), by_map ? static_cast<float*>(p[4]) : nullptr,
                   static_cast<float*>(p[3]));
        },
        std::move(args));
    l.contribute(numbers, dt);
    if (by_map) l.contribute(map, dx);
  };
}

}  // namespace dtrain::exec::cpu
