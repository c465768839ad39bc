#include "cuda/kernels/elementwise.h"

#include "cuda/kernels/bias.h"
#include "exec/reference/loops.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

// Calls check(type, extent, lie) for every type, extent and memory placement of the first operand.
template <class Check>
void for_each_case(Check&& check) {
  for (const Type type : kTypes) {
    for (const Extent& e : map_extents()) {
      for (const Lie& lie : kLies) {
        if (e.count() > 10000 && lie.gap + lie.skew > 0) continue;
        INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", gap " << lie.gap << ", skew " << lie.skew);
        check(type, e, lie);
      }
    }
  }
}

constexpr graph::Activation::Kind kKinds[] = {graph::Activation::Kind::kRelu, graph::Activation::Kind::kTanh,
                                              graph::Activation::Kind::kSigmoid, graph::Activation::Kind::kSoftrelu,
                                              graph::Activation::Kind::kSoftsign};

}  // namespace

TEST_CASE("a sum of up to 8 sources adds their numbers in order", "[cuda]") {
  for_each_case([](Type type, const Extent& e, const Lie& lie) {
    for (const int count : {1, 2, 8}) {
      for (const bool relu : {false, true}) {
        if (relu && count != 2) continue;
        Floats expected(e.count());
        std::vector<Floats> values;
        for (int i = 0; i < count; i++) values.push_back(rounded(type, normals(e.count(), 10 + i)));
        for (const Floats& x : values) {
          for (size_t k = 0; k < x.size(); k++) expected[k] = &x == &values[0] ? x[k] : expected[k] + x[k];
        }
        for (float& x : expected) x = relu && !(x > 0) ? 0.0f : x;
        const auto results = in_all_orders([&] {
          std::vector<Map> sources;
          for (const Floats& x : values) sources.emplace_back(type, e, x, sources.empty() ? lie : Lie{});
          std::vector<In> in;
          for (const Map& source : sources) in.push_back(source.in());
          const Map y(type, e, count == 1 ? Lie{} : lie);  // with one source, this copies a slice out of a map
          sum({.type = type, .rows = pixels(e), .channels = e.c, .sources = in, .y = y.out(), .relu = relu}, nullptr);
          REQUIRE(y.gaps_are_untouched());
          return Results{y.get()};
        });
        REQUIRE(same_bits(results[0], rounded(type, expected)));
      }
    }
  });
}

// Maps of a million threads and more reach the limits on grids, so that a thread processes several pixels.
TEST_CASE("maps larger than a grid are processed completely", "[cuda]") {
  const Extent e{1, 2048, 66, 66};
  const Lie slice{.gap = 8, .skew = 8};
  const Floats values = rounded(Type::kFloat16, normals(e.count(), 1));
  const Map x(Type::kFloat16, e, values, slice), y(Type::kFloat16, e, slice);
  const In sources[] = {x.in()};
  const emulator::Session session;
  sum({.type = Type::kFloat16, .rows = pixels(e), .channels = e.c, .sources = sources, .y = y.out()}, nullptr);
  const auto& [name, grid, block, bytes] = session.records()[0];
  REQUIRE(int64_t{grid.y} * block.y < pixels(e));
  CHECK(same_bits(y.get(), values));
  const Floats many = normals(9'000'000, 2);
  const Array wide(Type::kFloat32, many), narrow(Type::kBfloat16, static_cast<int64_t>(many.size()));
  convert({.to_type = Type::kBfloat16, .count = 9'000'000, .from = wide.data(), .to = narrow.data()}, nullptr);
  REQUIRE(int64_t{session.records()[1].grid.x} * session.records()[1].block.x * 4 < 9'000'000);
  CHECK(same_bits(narrow.get(), rounded(Type::kBfloat16, many)));
}

TEST_CASE("a sum is scaled before its relu", "[cuda]") {
  for (const Type type : kTypes) {
    const Extent e{2, 24, 5, 5};
    const Map x(type, e, integers(e.count(), 1)), z(type, e, integers(e.count(), 2)), y(type, e), cut(type, e);
    const In sources[] = {x.in(), z.in()};
    Sum scaled{.type = type, .rows = pixels(e), .channels = e.c, .sources = sources, .y = y.out(), .factor = -0.5f};
    sum(scaled, nullptr);
    scaled.y = cut.out();
    scaled.relu = true;
    sum(scaled, nullptr);
    Floats expected = integers(e.count(), 1);
    for (size_t i = 0; i < expected.size(); i++) expected[i] = -0.5f * (expected[i] + integers(e.count(), 2)[i]);
    CHECK(y.get() == expected);
    for (float& v : expected) v = std::max(v, 0.0f);
    CHECK(cut.get() == expected);
  }
}

TEST_CASE("a gradient accumulates in place", "[cuda]") {
  const Extent e{2, 24, 5, 5};
  const Map x(Type::kFloat16, e, integers(e.count(), 1)), y(Type::kFloat16, e, integers(e.count(), 2));
  const In sources[] = {y.in(), x.in()};
  sum({.type = Type::kFloat16, .rows = pixels(e), .channels = e.c, .sources = sources, .y = y.out()}, nullptr);
  Floats expected = integers(e.count(), 2);
  for (size_t i = 0; i < expected.size(); i++) expected[i] += integers(e.count(), 1)[i];
  CHECK(same_bits(y.get(), expected));
}

TEST_CASE("activations agree with the reference, forward and backward", "[cuda]") {
  for_each_case([](Type type, const Extent& e, const Lie& lie) {
    if (e.count() > 20000) return;
    for (const graph::Activation::Kind kind : kKinds) {
      const auto curve = static_cast<Curve>(kind);
      const Floats x = rounded(type, normals(e.count(), 1)), dy = rounded(type, normals(e.count(), 2)),
                   add = rounded(type, normals(e.count(), 3));
      const auto results = in_all_orders([&] {
        const Map x_map(type, e, x, lie), y(type, e), dy_map(type, e, dy), dx(type, e, add, lie);
        activate({.type = type, .rows = pixels(e), .channels = e.c, .curve = curve, .x = x_map.in(), .y = y.out()},
                 nullptr);
        activate_backward({.type = type,
                           .rows = pixels(e),
                           .channels = e.c,
                           .curve = curve,
                           .y = y.in(),
                           .dy = dy_map.in(),
                           .add = dx.in(),
                           .dx = dx.out()},
                          nullptr);
        REQUIRE(dx.gaps_are_untouched());
        return Results{y.get(), dx.get()};
      });
      std::vector<double> y(e.count()), dx = doubles(add);
      const std::vector<double> x_truth = doubles(x), dy_truth = doubles(dy), y_stored = doubles(results[0]);
      exec::reference::activation_forward<double>({kind}, x_truth, y);
      exec::reference::activation_backward<double>({kind}, y_stored, dy_truth, dx);
      REQUIRE(error_of(results[0], y) <= tolerance(type, 16));
      REQUIRE(error_of(results[1], dx) <= tolerance(type, 16));
    }
  });
}

// The sums have the bits of bias_gradient on the stored dx, and dx has the bits that it has without the sums.
TEST_CASE("the gradient of a bias is summed while the activation's gradient is written", "[cuda]") {
  for_each_case([](Type type, const Extent& e, const Lie& lie) {
    if (e.count() > 20000) return;
    for (const Curve curve : {Curve::kRelu, Curve::kTanh}) {
      const Floats y = rounded(type, normals(e.count(), 1)), dy = rounded(type, normals(e.count(), 2));
      const auto run = [&](bool together) {
        const Map y_map(type, e, y), dy_map(type, e, dy), dx(type, e, lie);
        const Array dbias(Type::kFloat32, e.c);
        const DeviceMemory workspace(static_cast<size_t>(bias_workspace_bytes(type, pixels(e), e.c)));
        const Counters counters(bias_counters(e.c));
        activate_backward({.type = type,
                           .rows = pixels(e),
                           .channels = e.c,
                           .curve = curve,
                           .y = y_map.in(),
                           .dy = dy_map.in(),
                           .dx = dx.out(),
                           .dbias = together ? dbias.floats() : nullptr,
                           .workspace = workspace.at(0),
                           .counters = counters.data()},
                          nullptr);
        if (!together) {
          bias_gradient({.type = type,
                         .rows = pixels(e),
                         .channels = e.c,
                         .dy = dx.in(),
                         .dbias = dbias.floats(),
                         .workspace = workspace.at(0),
                         .counters = counters.data()},
                        nullptr);
        }
        REQUIRE(dx.gaps_are_untouched());
        REQUIRE(counters.are_zero());
        return Results{dx.get(), dbias.get()};
      };
      const Results apart = run(false), together = in_all_orders([&] { return run(true); });
      for (size_t i = 0; i < apart.size(); i++) REQUIRE(same_bits(apart[i], together[i]));
    }
  });
}

TEST_CASE("large arguments of softrelu and the others do not overflow", "[cuda]") {
  const Extent e{1, 4, 1, 1};
  for (const graph::Activation::Kind kind : kKinds) {
    const Map x(Type::kFloat32, e, {-200, -90, 90, 200}), y(Type::kFloat32, e);
    activate({.rows = 1, .channels = 4, .curve = static_cast<Curve>(kind), .x = x.in(), .y = y.out()}, nullptr);
    std::vector<double> truth(4);
    exec::reference::activation_forward<double>({kind}, std::vector<double>{-200, -90, 90, 200}, truth);
    CHECK(error_of(y.get(), truth) <= tolerance(Type::kFloat32, 16));
  }
}

TEST_CASE("numbers change their type one by one", "[cuda]") {
  for (const Type type : kTypes) {
    for (const int64_t count : {1, 3, 4, 7, 1000, 4099}) {
      for (const int64_t skew : {0, 1}) {
        const Floats values = normals(static_cast<size_t>(count), 5);
        in_all_orders([&] {
          const Array wide(Type::kFloat32, values), narrow(type, count, skew), back(Type::kFloat32, count);
          convert(
              {.from_type = Type::kFloat32, .to_type = type, .count = count, .from = wide.data(), .to = narrow.data()},
              nullptr);
          convert(
              {.from_type = type, .to_type = Type::kFloat32, .count = count, .from = narrow.data(), .to = back.data()},
              nullptr);
          REQUIRE(same_bits(narrow.get(), rounded(type, values)));
          REQUIRE(same_bits(back.get(), rounded(type, values)));
          return Results{back.get()};
        });
      }
    }
  }
}

TEST_CASE("elementwise operations report the bytes that they move", "[cuda]") {
  const Extent e{2, 24, 3, 3};
  const int64_t elements = 2 * 24 * 9;
  const Map x(Type::kFloat16, e), y(Type::kFloat16, e);
  const In sources[] = {x.in(), y.in(), x.in()};
  const emulator::Session session;
  sum({.type = Type::kFloat16, .rows = 18, .channels = 24, .sources = sources, .y = y.out()}, nullptr);
  activate({.type = Type::kFloat16, .rows = 18, .channels = 24, .x = x.in(), .y = y.out()}, nullptr);
  activate_backward({.type = Type::kFloat16, .rows = 18, .channels = 24, .y = x.in(), .dy = x.in(), .dx = y.out()},
                    nullptr);
  const Array dbias(Type::kFloat32, 24);
  const DeviceMemory workspace(static_cast<size_t>(bias_workspace_bytes(Type::kFloat16, 18, 24)));
  const Counters counters(bias_counters(24));
  activate_backward({.type = Type::kFloat16,
                     .rows = 18,
                     .channels = 24,
                     .y = x.in(),
                     .dy = x.in(),
                     .dx = y.out(),
                     .dbias = dbias.floats(),
                     .workspace = workspace.at(0),
                     .counters = counters.data()},
                    nullptr);
  REQUIRE(session.records().size() == 4);
  CHECK(session.records()[0].bytes == 4 * elements * 2);
  CHECK(session.records()[1].bytes == 2 * elements * 2);
  CHECK(session.records()[2].bytes == 3 * elements * 2);
  // One chunk and one set of chunks.
  CHECK(session.records()[3].bytes == 3 * elements * 2 + (1 + 1) * 24 * 4 + 24 * 4);
}

TEST_CASE("sums without sources and conversions between two short types are refused", "[cuda]") {
  const Map y(Type::kFloat32, {1, 4, 1, 1});
  CHECK_THROWS_AS(sum({.rows = 1, .channels = 4, .sources = {}, .y = y.out()}, nullptr), CheckFailed);
  CHECK_THROWS_AS(convert({.from_type = Type::kFloat16, .to_type = Type::kBfloat16, .count = 1}, nullptr), CheckFailed);
}

}  // namespace dtrain::cuda::test
