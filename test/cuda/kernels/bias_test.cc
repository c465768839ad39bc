#include "cuda/kernels/bias.h"

#include "support.h"

namespace dtrain::cuda::test {

TEST_CASE("a bias is added to every pixel, and its gradient is the sum over them", "[cuda]") {
  std::vector<Extent> extents = map_extents();
  extents.push_back({8, 20, 24, 24});  // several chunks
  for (const Type type : kTypes) {
    for (const Extent& e : extents) {
      for (const Lie& lie : kLies) {
        if (e.count() > 10000 && lie.gap + lie.skew > 0) continue;
        INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", gap " << lie.gap << ", skew " << lie.skew);
        const Floats x = integers(e.count(), 1), bias = integers(static_cast<size_t>(e.c), 2);
        const Results results = in_all_orders([&] {
          const Map x_map(type, e, x, lie), y(type, e, lie);
          const Array b = floats(bias), db(Type::kFloat32, e.c);
          const DeviceMemory workspace(static_cast<size_t>(bias_workspace_bytes(type, pixels(e), e.c)));
          const Counters counters(bias_counters(e.c));
          bias_add(
              {.type = type, .rows = pixels(e), .channels = e.c, .x = x_map.in(), .bias = b.floats(), .y = y.out()},
              nullptr);
          bias_gradient({.type = type,
                         .rows = pixels(e),
                         .channels = e.c,
                         .dy = x_map.in(),
                         .dbias = db.floats(),
                         .workspace = workspace.at(0),
                         .counters = counters.data()},
                        nullptr);
          REQUIRE(counters.are_zero());
          REQUIRE(y.gaps_are_untouched());
          return Results{y.get(), db.get()};
        });
        Floats y(e.count()), db(static_cast<size_t>(e.c));
        const size_t map = static_cast<size_t>(e.h * e.w);
        for (size_t i = 0; i < y.size(); i++) {
          const size_t c = i / map % db.size();
          y[i] = x[i] + bias[c];
          db[c] += x[i];
        }
        REQUIRE(same_bits(results[0], y));
        REQUIRE(same_bits(results[1], db));
      }
    }
  }
}

TEST_CASE("images are summed in their order", "[cuda]") {
  for (const Type type : kTypes) {
    for (const size_t elements : {7U, 64U, 1000U}) {
      constexpr size_t kImages = 5;
      INFO("type " << static_cast<int>(type) << ", " << elements << " elements");
      const Floats x = integers(kImages * elements, 1);
      const Results results = in_all_orders([&] {
        const Array from(type, x), to(type, static_cast<int64_t>(elements));
        image_sum({.type = type,
                   .images = kImages,
                   .elements = static_cast<int64_t>(elements),
                   .x = from.data(),
                   .y = to.data()},
                  nullptr);
        return Results{to.get()};
      });
      Floats sum(elements);
      for (size_t i = 0; i < x.size(); i++) sum[i % elements] += x[i];
      REQUIRE(same_bits(results[0], sum));
    }
  }
}

TEST_CASE("the error of a bias gradient is within the bound of rounding", "[cuda]") {
  const Extent e{8, 24, 28, 28};
  const Floats dy = normals(e.count(), 1);
  const Map map(Type::kFloat32, e, dy);
  const Array db(Type::kFloat32, e.c);
  const DeviceMemory workspace(static_cast<size_t>(bias_workspace_bytes(Type::kFloat32, pixels(e), e.c)));
  const Counters counters(bias_counters(e.c));
  const emulator::Session session;
  bias_gradient({.rows = pixels(e),
                 .channels = e.c,
                 .dy = map.in(),
                 .dbias = db.floats(),
                 .workspace = workspace.at(0),
                 .counters = counters.data()},
                nullptr);
  std::vector<double> truth(24);
  for (size_t i = 0; i < dy.size(); i++) truth[i / (28 * 28) % 24] += static_cast<double>(dy[i]);
  CHECK(error_of(db.get(), truth, exec::norm(std::span<const float>(dy))) <= tolerance(Type::kFloat32, 8 * 28 * 28));
  REQUIRE(session.records().size() == 1);
  const int64_t partials = session.records()[0].bytes - static_cast<int64_t>(e.count() + 24) * 4;
  CHECK(partials > 0);
  CHECK(partials <= bias_workspace_bytes(Type::kFloat32, pixels(e), e.c));
}

}  // namespace dtrain::cuda::test
