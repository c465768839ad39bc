#include "cuda/kernels/sampling.h"

#include "exec/sampling.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

struct Sampled {
  std::vector<double> y, dt, dx;
};

Sampled on_host(const Extent& xe, const Extent& ye, const Floats& x, const Floats& t, const Floats& dy) {
  const exec::Sampling s{.channels = xe.c, .height = xe.h, .width = xe.w, .output_height = ye.h, .output_width = ye.w};
  const std::vector<double> maps = doubles(x), numbers = doubles(t), gradient = doubles(dy);
  Sampled made{std::vector<double>(ye.count()), std::vector<double>(t.size()), std::vector<double>(xe.count())};
  const size_t from = xe.count() / static_cast<size_t>(xe.n), to = ye.count() / static_cast<size_t>(ye.n);
  for (size_t i = 0; i < static_cast<size_t>(xe.n); i++) {
    exec::sample_map<double>(s, &maps[i * from], &numbers[i * 6], &made.y[i * to]);
    exec::sample_map_backward<double>(s, &maps[i * from], &numbers[i * 6], &gradient[i * to], &made.dx[i * from],
                                      &made.dt[i * 6]);
  }
  return made;
}

constexpr float kIdentity[] = {1, 0, 0, 0, 1, 0};

// The identity, a reflection far outside of the map, and random ones.
Floats transformations(Type type, int64_t images) {
  Floats t = rounded(type, normals(static_cast<size_t>(images * 6), 3));
  std::copy(std::begin(kIdentity), std::end(kIdentity), t.begin());
  if (images > 1) t[6 + 2] = 1e30f;
  return rounded(type, t);
}

}  // namespace

TEST_CASE("sampled maps agree with the host's, forward and backward", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Extent& xe : {Extent{3, 1, 28, 28}, Extent{2, 20, 5, 7}}) {
      const Extent ye{xe.n, xe.c, xe.h == 28 ? 28 : 4, xe.h == 28 ? 28 : 9};
      for (const Lie& lie : kLies) {
        INFO("type " << static_cast<int>(type) << ", " << to_text(xe) << ", gap " << lie.gap);
        const Floats x = rounded(type, normals(xe.count(), 1)), dy = rounded(type, normals(ye.count(), 2));
        const Floats t = transformations(type, xe.n);
        const SamplingShape shape{.n = xe.n, .channels = xe.c, .h = xe.h, .w = xe.w, .p = ye.h, .q = ye.w};
        const Results results = in_all_orders([&] {
          const Map x_map(type, xe, x, lie), y(type, ye, lie), dy_map(type, ye, dy);
          const Array numbers(type, t), dt(type, xe.n * 6);
          const Array dx(Type::kFloat32, static_cast<int64_t>(xe.count()));
          sample({type, shape, x_map.in(), {numbers.data()}, y.out()}, nullptr);
          sample_backward({type, shape, x_map.in(), {numbers.data()}, dy_map.in(), {dt.data()}, dx.floats()}, nullptr);
          REQUIRE(y.gaps_are_untouched());
          return Results{y.get(), dt.get(), dx.get()};
        });
        const Sampled truth = on_host(xe, ye, x, t, dy);
        std::vector<double> by_cell;  // [n, h, w, c], as the kernel writes it
        for (int64_t n = 0; n < xe.n; n++) {
          for (int64_t p = 0; p < xe.h * xe.w; p++) {
            for (int64_t c = 0; c < xe.c; c++) {
              by_cell.push_back(truth.dx[static_cast<size_t>((n * xe.c + c) * xe.h * xe.w + p)]);
            }
          }
        }
        const double reach = static_cast<double>(xe.w), terms = static_cast<double>(ye.h * ye.w * ye.c);
        CHECK(error_of(results[0], truth.y) <= tolerance(type, 16) * (type == Type::kFloat32 ? reach : 2));
        CHECK(error_of(results[1], truth.dt) <= tolerance(type, terms) * reach);
        CHECK(error_of(results[2], by_cell) <= tolerance(Type::kFloat32, terms) * reach);
      }
    }
  }
}

// In float32 the positions are exact, so the bits are those of the map.
TEST_CASE("the identity samples the map itself", "[cuda]") {
  const Extent e{1, 3, 33, 17};
  const Floats x = normals(e.count(), 1);
  const Map from(Type::kFloat32, e, x), to(Type::kFloat32, e);
  const Array t = floats({std::begin(kIdentity), std::end(kIdentity)});
  sample({Type::kFloat32,
          {.n = 1, .channels = e.c, .h = e.h, .w = e.w, .p = e.h, .q = e.w},
          from.in(),
          {t.data()},
          to.out()},
         nullptr);
  CHECK(same_bits(to.get(), x));
}

}  // namespace dtrain::cuda::test
