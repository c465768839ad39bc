#include "cuda/kernels/response_norm.h"

#include "exec/reference/loops.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

ResponseNormShape shape_of(const Extent& e, const graph::LocalResponseNorm& op) {
  return {.rows = pixels(e),
          .channels = e.c,
          .size = op.size,
          .alpha_each = static_cast<float>(op.alpha / static_cast<double>(op.size)),
          .beta = static_cast<float>(op.beta),
          .k = static_cast<float>(op.k)};
}

}  // namespace

TEST_CASE("local response norms agree with the reference, forward and backward", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Extent& e : {Extent{2, 24, 5, 3}, Extent{1, 3, 2, 2}, Extent{2, 300, 1, 2}}) {
      for (const Lie& lie : kLies) {
        for (const graph::LocalResponseNorm op : {graph::LocalResponseNorm{},
                                                  {.size = 3, .alpha = 0.5, .beta = 0.5, .k = 1},
                                                  {.size = 7, .alpha = 1, .beta = 1, .k = 1}}) {
          INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", gap " << lie.gap << ", size " << op.size);
          const Floats x = rounded(type, normals(e.count(), 1)), dy = rounded(type, normals(e.count(), 2));
          const ResponseNormShape shape = shape_of(e, op);
          const Results results = in_all_orders([&] {
            const Map x_map(type, e, x, lie), y(type, e, lie), dy_map(type, e, dy, lie), dx(type, e);
            const Array d(Type::kFloat32, static_cast<int64_t>(e.count()));
            response_norm({type, shape, x_map.in(), d.floats(), y.out()}, nullptr);
            response_norm_backward({type, shape, x_map.in(), dy_map.in(), d.floats(), dx.out()}, nullptr);
            REQUIRE(y.gaps_are_untouched());
            return Results{y.get(), dx.get()};
          });
          std::vector<double> y(e.count()), dx(e.count());
          exec::reference::local_response_norm_forward<double>(op, e, doubles(x), y);
          exec::reference::local_response_norm_backward<double>(op, e, doubles(x), doubles(dy), dx);
          const double terms = 16 + static_cast<double>(op.size);
          REQUIRE(error_of(results[0], y) <= tolerance(type, terms));
          REQUIRE(error_of(results[1], dx) <= 2 * tolerance(type, terms));
        }
      }
    }
  }
}

}  // namespace dtrain::cuda::test
