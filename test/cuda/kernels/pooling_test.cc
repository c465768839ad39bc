#include "cuda/kernels/pooling.h"

#include <optional>

#include "exec/reference/loops.h"
#include "graph/models/builder.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

using graph::Pooling;

// Uses the graph's own shape rules; nullopt if they reject the windows.
std::optional<PoolingShape> shape_of(const Pooling& op, const Extent& e) {
  graph::Graph g;
  g.add("data", graph::Input{}, {});
  g.add("pool", op, {0});
  g.add("flatten", graph::Flatten{}, {1});
  g.add("softmax", graph::SoftmaxOutput{}, {2});
  const auto shapes = graph::infer_shapes(g, {e.c, e.h, e.w});
  if (!shapes) return std::nullopt;
  PoolingShape s{.n = e.n, .h = e.h, .w = e.w, .channels = e.c, .p = shapes->output[1][1], .q = shapes->output[1][2]};
  s.kernel_h = op.global ? e.h : op.kernel_h;
  s.kernel_w = op.global ? e.w : op.kernel_w;
  if (op.global) return s;
  s.stride_h = op.stride_h;
  s.stride_w = op.stride_w;
  s.pad_h = op.pad_h;
  s.pad_w = op.pad_w;
  return s;
}

// The windows of the networks, and all rounding and divisor rules, on square and other maps.
std::vector<Pooling> all_poolings() {
  std::vector<Pooling> ops;
  for (const auto kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage, Pooling::Kind::kSum}) {
    for (const auto rounding : {Pooling::Rounding::kValid, Pooling::Rounding::kFull, Pooling::Rounding::kV07}) {
      for (const auto divisor : {Pooling::Divisor::kPadded, Pooling::Divisor::kKernel, Pooling::Divisor::kReal}) {
        if (kind != Pooling::Kind::kAverage && divisor != Pooling::Divisor::kPadded) continue;
        for (const auto& [kernel, stride, pad] :
             {std::array<int64_t, 3>{2, 2, 0}, {3, 2, 0}, {3, 2, 1}, {3, 1, 1}, {2, 3, 0}, {5, 3, 2}}) {
          ops.push_back(graph::pooling(kind, kernel, stride, pad, rounding, divisor));
        }
        ops.push_back({.kind = kind,
                       .kernel_h = 3,
                       .kernel_w = 2,
                       .stride_h = 1,
                       .stride_w = 2,
                       .pad_h = 1,
                       .rounding = rounding,
                       .divisor = divisor});
      }
    }
    ops.push_back({.kind = kind, .global = true});
  }
  return ops;
}

Extent output_extent(const PoolingShape& s) {
  return {s.n, s.channels, s.p, s.q};
}

Results run(const Pooling& op, const PoolingShape& s, Type type, const Extent& e, Lie lie, const Floats& values,
            const Floats& gradient, const Floats& add) {
  const Extent ye = output_extent(s);
  const Map x(type, e, values, lie), y(type, ye, lie), dy(type, ye, gradient), dx(type, e, add, lie);
  if (op.kind == Pooling::Kind::kMax) {
    const DeviceMemory where(ye.count() * static_cast<size_t>(max_pooling_index_bytes(s)));
    max_pooling({.type = type, .shape = s, .x = x.in(), .y = y.out(), .where = where.at(0)}, nullptr);
    max_pooling_backward(
        {.type = type, .shape = s, .dy = dy.in(), .add = dx.in(), .where = where.at(0), .dx = dx.out()}, nullptr);
  } else {
    constexpr Divide kDivides[] = {Divide::kByPadded, Divide::kByKernel, Divide::kByReal};  // by Pooling::Divisor
    const Divide divide = op.kind == Pooling::Kind::kSum ? Divide::kNot : kDivides[static_cast<size_t>(op.divisor)];
    average_pooling({.type = type, .shape = s, .divide = divide, .x = x.in(), .y = y.out()}, nullptr);
    average_pooling_backward(
        {.type = type, .shape = s, .divide = divide, .dy = dy.in(), .add = dx.in(), .dx = dx.out()}, nullptr);
  }
  REQUIRE(y.gaps_are_untouched());
  REQUIRE(dx.gaps_are_untouched());
  return {y.get(), dx.get()};
}

// Sums have the reference's order, so even inexact ones give the reference's bits, rounded once more when stored.
void check(const Pooling& op, const Extent& e, Type type, Lie lie, bool whole) {
  const std::optional<PoolingShape> s = shape_of(op, e);
  if (!s) return;
  const Extent ye = output_extent(*s);
  INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", kernel " << s->kernel_h << "x" << s->kernel_w
               << ", stride " << s->stride_h << "x" << s->stride_w << ", pad " << s->pad_h << "x" << s->pad_w << " to "
               << to_text(ye) << ", gap " << lie.gap << ", skew " << lie.skew);
  const auto numbers = [&](size_t count, uint64_t seed) {
    return whole ? integers(count, seed) : rounded(type, normals(count, seed));
  };
  const Floats x = numbers(e.count(), 1), dy = numbers(ye.count(), 2), add = numbers(e.count(), 3);
  const Results results = in_all_orders([&] { return run(op, *s, type, e, lie, x, dy, add); });
  Floats y(ye.count()), dx = add;
  exec::reference::pooling_forward<float>(op, e, x, ye, y);
  exec::reference::pooling_backward<float>(op, e, x, ye, dy, dx);
  REQUIRE(same_bits(results[0], rounded(type, y)));
  REQUIRE(same_bits(results[1], rounded(type, dx)));
}

}  // namespace

// Whole numbers between -4 and 4 make ties in nearly every window.
TEST_CASE("pooling by every rule gives the reference's bits", "[cuda]") {
  for (const Pooling& op : all_poolings()) {
    for (const Extent& e : {Extent{2, 8, 7, 7}, Extent{1, 3, 8, 5}, Extent{2, 24, 6, 6}, Extent{1, 10, 9, 4}}) {
      for (const Type type : kTypes) {
        for (const bool whole : {true, false}) check(op, e, type, {}, whole);
      }
      for (const Lie& lie : kLies) check(op, e, Type::kFloat16, lie, true);
    }
  }
}

TEST_CASE("pooling on the networks' own maps", "[cuda]") {
  const auto square = [](Pooling::Kind kind, int64_t kernel, int64_t stride, int64_t pad) {
    return graph::pooling(kind, kernel, stride, pad, Pooling::Rounding::kFull);
  };
  for (const Type type : {Type::kFloat32, Type::kFloat16}) {
    check(square(Pooling::Kind::kMax, 3, 2, 1), {1, 64, 28, 28}, type, {}, true);
    check(square(Pooling::Kind::kMax, 3, 1, 1), {1, 192, 14, 14}, type, {.gap = 96}, true);
    check(square(Pooling::Kind::kAverage, 3, 1, 1), {1, 320, 14, 14}, type, {}, false);
    check(square(Pooling::Kind::kAverage, 7, 1, 0), {2, 1024, 7, 7}, type, {}, false);
    check({.kind = Pooling::Kind::kAverage, .global = true}, {2, 2048, 7, 7}, type, {}, false);
    check({.kind = Pooling::Kind::kMax, .global = true}, {2, 64, 17, 17}, type, {}, true);  // 4 bytes per index
  }
}

TEST_CASE("the first maximum in row-major order gets the gradient, infinities and NaN included", "[cuda]") {
  const Extent e{1, 1, 2, 4};
  const Pooling op{.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
  const PoolingShape s = *shape_of(op, e);
  const Floats x = {-INFINITY, -INFINITY, NAN, 1, -INFINITY, -INFINITY, 2, 3};
  const Results r = run(op, s, Type::kFloat32, e, {}, x, {5, 7}, Floats(8));
  CHECK(r[0][0] == -INFINITY);
  CHECK(std::isnan(r[0][1]));
  CHECK(r[1] == Floats{5, 0, 7, 0, 0, 0, 0, 0});
}

TEST_CASE("inference pools without indices", "[cuda]") {
  const Extent e{2, 8, 6, 6}, ye{2, 8, 3, 3};
  const Pooling op{.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
  const Floats values = integers(e.count(), 1);
  const Map x(Type::kFloat32, e, values), y(Type::kFloat32, ye);
  max_pooling({.shape = *shape_of(op, e), .x = x.in(), .y = y.out()}, nullptr);
  Floats truth(ye.count());
  exec::reference::pooling_forward<float>(op, e, values, ye, truth);
  CHECK(same_bits(y.get(), truth));
}

TEST_CASE("pooling reports the bytes that it moves", "[cuda]") {
  const Extent e{2, 8, 6, 6};
  const Pooling op{.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
  const int64_t x = 2 * 8 * 36, y = x / 4;
  const emulator::Session session;
  run(op, *shape_of(op, e), Type::kFloat16, e, {}, Floats(e.count()), Floats(static_cast<size_t>(y)),
      Floats(e.count()));
  REQUIRE(session.records().size() == 2);
  CHECK(session.records()[0].bytes == (x + y) * 2 + y);
  CHECK(session.records()[1].bytes == (2 * x + y) * 2 + y);
}

TEST_CASE("windows without a real cell are refused", "[cuda]") {
  const Map x(Type::kFloat32, {1, 4, 4, 4}), y(Type::kFloat32, {1, 4, 4, 4});
  const PoolingShape padding{.n = 1, .h = 4, .w = 4, .channels = 4, .p = 6, .q = 6, .pad_h = 1, .pad_w = 1};
  CHECK_THROWS_AS(max_pooling({.shape = padding, .x = x.in(), .y = y.out()}, nullptr), CheckFailed);
  const PoolingShape beyond{.n = 1, .h = 4, .w = 4, .channels = 4, .p = 5, .q = 4};
  CHECK_THROWS_AS(average_pooling({.shape = beyond, .x = x.in(), .y = y.out()}, nullptr), CheckFailed);
}

}  // namespace dtrain::cuda::test
