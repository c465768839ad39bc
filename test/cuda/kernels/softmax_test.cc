#include "cuda/kernels/softmax.h"

#include "exec/reference/loops.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

struct Rows {
  int64_t count, classes;
};
constexpr Rows kRows[] = {{1, 1}, {3, 2}, {5, 10}, {2, 127}, {2, 128}, {3, 129}, {2, 1000}, {1, 21841}};

Floats labels_of(const Rows& rows) {
  RandomStream random(9, Use::kTest);
  Floats labels;
  for (int64_t i = 0; i < rows.count; i++) labels.push_back(static_cast<float>(random.below(rows.classes)));
  return labels;
}

}  // namespace

TEST_CASE("the softmax and its gradient agree with the reference", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Rows& rows : kRows) {
      for (const double alpha : {0.0, 0.1}) {
        INFO("type " << static_cast<int>(type) << ", " << rows.count << " x " << rows.classes << ", smoothing "
                     << alpha);
        const int64_t count = rows.count * rows.classes;
        const Floats x = rounded(type, normals(static_cast<size_t>(count), 1, 2)), labels = labels_of(rows);
        const float scale = 1024;
        const Results results = in_all_orders([&] {
          const Array x_array(type, x), p(Type::kFloat32, count), dx(type, count), label_array = floats(labels);
          const Array loss_scale = floats({scale});
          softmax({.type = type, .rows = rows.count, .classes = rows.classes, .x = x_array.data(), .p = p.floats()},
                  nullptr);
          softmax_backward({.type = type,
                            .rows = rows.count,
                            .classes = rows.classes,
                            .smooth_alpha = alpha,
                            .p = p.floats(),
                            .labels = label_array.floats(),
                            .loss_scale = loss_scale.floats(),
                            .dx = dx.data()},
                           nullptr);
          return Results{p.get(), dx.get()};
        });
        std::vector<double> p(static_cast<size_t>(count)), dx(p.size());
        exec::reference::softmax_forward<double>(rows.count, doubles(x), p);
        exec::reference::softmax_backward<double>({.smooth_alpha = alpha}, p, labels, dx);
        for (double& d : dx) d *= static_cast<double>(scale);
        const auto length = static_cast<double>(rows.classes);
        REQUIRE(error_of(results[0], p) <= tolerance(Type::kFloat32, length));
        REQUIRE(error_of(results[1], dx, static_cast<double>(scale)) <= tolerance(type, length));
      }
    }
  }
}

// The loss scale, a power of two, is the only difference, so the bits equal those of the reference in float32.
TEST_CASE("the gradient of given probabilities has the reference's bits", "[cuda]") {
  const Rows rows{4, 10};
  const Floats p = rounded(Type::kFloat32, normals(40, 3)), labels = labels_of(rows);
  for (const double alpha : {0.0, 0.1}) {
    const Array p_array = floats(p), label_array = floats(labels), dx(Type::kFloat32, 40);
    const emulator::Session session;
    softmax_backward({.rows = 4,
                      .classes = 10,
                      .smooth_alpha = alpha,
                      .factor = 0.5F,
                      .p = p_array.floats(),
                      .labels = label_array.floats(),
                      .dx = dx.data()},
                     nullptr);
    Floats truth(40);
    exec::reference::softmax_backward<float>({.smooth_alpha = alpha, .gradient_scale = 0.5}, p, labels, truth);
    CHECK(same_bits(dx.get(), truth));
    CHECK(session.records()[0].bytes == 40 * 8 + 16);
  }
}

}  // namespace dtrain::cuda::test
