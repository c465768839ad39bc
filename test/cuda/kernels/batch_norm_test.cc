#include "cuda/kernels/batch_norm.h"

#include "exec/reference/loops.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

using graph::BatchNorm;

// One case. The reference computes its truth in float64 from the numbers as they are stored.
struct Setting {
  Type type;
  Extent e;
  Lie lie = {};
  BatchNorm op = {};
  double mean = 0.3;
  bool skip = false, relu = false;
  bool bits = false;  // the backward pass reads the ReLU's signs as bits instead of from y
};

struct Numbers {
  explicit Numbers(const Setting& s)
      : x(rounded(s.type, normals(s.e.count(), 1, s.mean))),
        skip(s.skip ? rounded(s.type, normals(s.e.count(), 2)) : Floats{}),
        dy(rounded(s.type, normals(s.e.count(), 3))),
        add(rounded(s.type, normals(s.e.count(), 4))),
        gamma(normals(static_cast<size_t>(s.e.c), 5, 1)),
        beta(normals(static_cast<size_t>(s.e.c), 6)),
        moving_mean(normals(static_cast<size_t>(s.e.c), 7)),
        moving_var(static_cast<size_t>(s.e.c), 2.5f) {}
  Floats x, skip, dy, add, gamma, beta, moving_mean, moving_var;
};

struct Truth {
  std::vector<double> y, mean, inv_std, dx, dgamma, dbeta, dz;
  Floats moving_mean, moving_var;
};

// y_stored: the backward pass uses the signs of the stored output.
Truth truth_of(const Setting& s, const Numbers& n, const Floats& y_stored) {
  const auto c = static_cast<size_t>(s.e.c);
  Truth t{.y = std::vector<double>(s.e.count()),
          .mean = std::vector<double>(c),
          .inv_std = std::vector<double>(c),
          .dx = doubles(n.add),
          .dgamma = std::vector<double>(c),
          .dbeta = std::vector<double>(c),
          .dz = doubles(n.dy),
          .moving_mean = n.moving_mean,
          .moving_var = n.moving_var};
  const std::vector<double> x = doubles(n.x), gamma = doubles(n.gamma), beta = doubles(n.beta);
  const exec::reference::BatchStatistics<double> batch{t.mean, t.inv_std};
  exec::reference::batch_norm_training<double>(s.op, s.e, x, gamma, beta, batch, t.moving_mean, t.moving_var, t.y);
  for (size_t i = 0; i < t.y.size(); i++) {
    if (s.skip) t.y[i] += static_cast<double>(n.skip[i]);
    if (s.relu && !(t.y[i] > 0)) t.y[i] = 0;
    if (s.relu && !(y_stored[i] > 0)) t.dz[i] = 0;
  }
  exec::reference::batch_norm_backward<double>(s.op, s.e, x, gamma, batch, t.dz, t.dx, t.dgamma, t.dbeta);
  return t;
}

enum Result { kMean, kInvStd, kMovingMean, kMovingVar, kY, kDx, kDgamma, kDbeta, kDskip };

BatchNormBackward backward_of(const Setting& s, const float* gamma, const float* beta) {
  return {.type = s.type,
          .rows = pixels(s.e),
          .channels = s.e.c,
          .relu = s.relu,
          .gamma = s.op.fix_gamma ? nullptr : gamma,
          .beta = beta};
}

// Runs forward and backward on the emulated device; returns all results in the order of Result.
Results run(const Setting& s, const Numbers& n) {
  const int64_t rows = pixels(s.e), c = s.e.c;
  const Map x(s.type, s.e, n.x, s.lie), y(s.type, s.e, s.lie), dy(s.type, s.e, n.dy), dx(s.type, s.e, n.add, s.lie);
  const Map skip(s.type, s.e, s.skip ? n.skip : n.x), dskip(s.type, s.e);
  const Array mean(Type::kFloat32, c), inv_std(Type::kFloat32, c), gamma = floats(n.gamma), beta = floats(n.beta);
  const Array moving_mean = floats(n.moving_mean), moving_var = floats(n.moving_var);
  const Array dgamma(Type::kFloat32, c), dbeta(Type::kFloat32, c);
  const DeviceMemory workspace(static_cast<size_t>(batch_norm_workspace_bytes(s.type, rows, c)));
  const Counters counters(batch_norm_counters(c));
  const DeviceMemory bits(s.bits ? static_cast<size_t>(passed_bytes(s.type, rows, c)) : 0);
  auto* const passed = s.bits ? static_cast<uint8_t*>(bits.at(0)) : nullptr;
  batch_norm_statistics({.type = s.type,
                         .rows = rows,
                         .channels = c,
                         .x = x.in(),
                         .epsilon = s.op.epsilon,
                         .momentum = s.op.momentum,
                         .mean = mean.floats(),
                         .inv_std = inv_std.floats(),
                         .moving_mean = moving_mean.floats(),
                         .moving_var = moving_var.floats(),
                         .workspace = workspace.at(0),
                         .counters = counters.data()},
                        nullptr);
  REQUIRE(counters.are_zero());
  batch_norm_apply({.type = s.type,
                    .rows = rows,
                    .channels = c,
                    .x = x.in(),
                    .skip = s.skip ? skip.in() : In{},
                    .mean = mean.floats(),
                    .inv_std = inv_std.floats(),
                    .gamma = s.op.fix_gamma ? nullptr : gamma.floats(),
                    .beta = beta.floats(),
                    .relu = s.relu,
                    .y = y.out(),
                    .passed = passed},
                   nullptr);
  BatchNormBackward backward = backward_of(s, gamma.floats(), beta.floats());
  backward.x = x.in();
  backward.y = s.skip && s.relu && !s.bits ? y.in() : In{};
  backward.passed = passed;
  backward.dy = dy.in();
  backward.mean = mean.floats();
  backward.inv_std = inv_std.floats();
  backward.dgamma = dgamma.floats();
  backward.dbeta = dbeta.floats();
  backward.dskip = s.skip && s.relu ? dskip.out() : Out{};
  backward.add = dx.in();
  backward.dx = dx.out();
  backward.workspace = workspace.at(0);
  backward.counters = counters.data();
  batch_norm_backward(backward, nullptr);
  REQUIRE(counters.are_zero());
  REQUIRE(y.gaps_are_untouched());
  REQUIRE(dx.gaps_are_untouched());
  return {mean.get(), inv_std.get(), moving_mean.get(), moving_var.get(), y.get(),
          dx.get(),   dgamma.get(),  dbeta.get(),       dskip.get()};
}

// The bounds are those of exec/rounding.cc: the stored type adds its rounding, and the statistics are always float32.
void check(const Setting& s, const Numbers& n, const Results& r) {
  const Truth t = truth_of(s, n, r[kY]);
  const double m = static_cast<double>(pixels(s.e)), sums = tolerance(Type::kFloat32, m);
  const double stored = tolerance(s.type, m), dz_norm = exec::norm(std::span<const double>(t.dz));
  REQUIRE(error_of(r[kMean], t.mean, 1) <= sums);
  REQUIRE(error_of(r[kInvStd], t.inv_std) <= sums);
  REQUIRE(error_of(r[kMovingMean], doubles(t.moving_mean)) <= sums);
  REQUIRE(error_of(r[kMovingVar], doubles(t.moving_var)) <= sums);
  REQUIRE(error_of(r[kY], t.y, std::sqrt(static_cast<double>(s.e.count()))) <= stored);
  REQUIRE(error_of(r[kDx], t.dx, dz_norm) <= stored);
  REQUIRE(error_of(r[kDgamma], t.dgamma, dz_norm) <= sums);
  REQUIRE(error_of(r[kDbeta], t.dbeta, dz_norm) <= sums);
  if (s.skip && s.relu) REQUIRE(same_bits(r[kDskip], to_floats(t.dz)));
}

std::vector<Extent> batch_extents() {
  std::vector<Extent> extents = map_extents();
  extents.push_back({4, 24, 20, 20});  // several chunks
  extents.push_back({8, 3, 28, 28});
  return extents;
}

}  // namespace

TEST_CASE("batch norm agrees with the reference in every type, forward and backward", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Extent& e : batch_extents()) {
      if (pixels(e) == 1) continue;                         // one number per channel: see below
      if (e.c >= 1000 && type != Type::kFloat16) continue;  // thousands of emulated barriers
      for (const Lie& lie : kLies) {
        if (e.count() > 10000 && lie.gap + lie.skew > 0) continue;
        INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", gap " << lie.gap << ", skew " << lie.skew);
        const Setting s{.type = type, .e = e, .lie = lie, .op = {.fix_gamma = e.c % 3 == 0}};
        const Numbers n(s);
        check(s, n, in_all_orders([&] { return run(s, n); }));
      }
    }
  }
}

TEST_CASE("batch norm followed by the sum with a shortcut and a relu", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Extent& e : {Extent{2, 64, 14, 14}, Extent{3, 10, 5, 7}, Extent{8, 3, 28, 28}}) {
      for (const bool skip : {false, true}) {
        for (const bool relu : {false, true}) {
          INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", skip " << skip << ", relu " << relu);
          const Setting s{
              .type = type, .e = e, .op = {.epsilon = 2e-5, .fix_gamma = false}, .skip = skip, .relu = relu};
          const Numbers n(s);
          check(s, n, in_all_orders([&] { return run(s, n); }));
        }
      }
    }
  }
}

// The blocks of a tile are divided into 32 sets (kernels/reduction.cuh). Here a set has up to five blocks, and there is
// one tile or several; the last tile and the last chunk are smaller than the others. In descending order the block that
// all sets need is the last one.
TEST_CASE("the statistics of many blocks do not depend on which block is the last", "[cuda]") {
  for (const auto& [type, e] : {std::pair{Type::kFloat32, Extent{2, 128, 66, 66}},
                                {Type::kFloat16, Extent{1, 264, 65, 63}},
                                {Type::kFloat16, Extent{1, 37, 80, 81}}}) {
    INFO("type " << static_cast<int>(type) << ", " << to_text(e));
    const Setting s{.type = type, .e = e, .op = {.fix_gamma = false}};
    const Numbers n(s);
    check(s, n, in_all_orders([&] { return run(s, n); }));
  }
}

// Far from zero a sum of squares would lose all accuracy: at mean 1000 all seven digits.
TEST_CASE("the variance survives a mean far above it", "[cuda]") {
  for (const double mean : {30.0, 1000.0}) {
    const Setting s{.type = Type::kFloat32, .e = {4, 24, 20, 20}, .op = {.fix_gamma = false}, .mean = mean};
    const Numbers n(s);
    const Results r = run(s, n);
    const Truth t = truth_of(s, n, r[kY]);
    CHECK(error_of(r[kInvStd], t.inv_std) <= 1e-5);
    // The mean is a float, so y has an error of half a unit in the mean's last place.
    CHECK(error_of(r[kY], t.y) <= std::max(1e-5, mean * 0x1p-23));
    CHECK(error_of(r[kDx], t.dx) <= std::max(1e-5, mean * 0x1p-23));
  }
}

TEST_CASE("a channel of one number, or of equal numbers, has no variance", "[cuda]") {
  for (const Extent& e : {Extent{1, 8, 1, 1}, Extent{4, 8, 3, 3}}) {
    const Setting s{.type = Type::kFloat32, .e = e};
    Numbers n(s);
    n.x = Floats(e.count(), 0.7f);
    const Results r = run(s, n);
    CHECK(r[kMean] == Floats(8, 0.7f));
    for (const float inv_std : r[kInvStd]) CHECK(inv_std == Approx(1 / std::sqrt(s.op.epsilon)));
    for (size_t i = 0; i < r[kY].size(); i++)
      CHECK(r[kY][i] == n.beta[i / (e.count() / 8 / static_cast<size_t>(e.n)) % 8]);
  }
}

TEST_CASE("the sign of the relu is the same from the output and from the input", "[cuda]") {
  for (const Type type : kTypes) {
    const Setting s{.type = type, .e = {4, 24, 9, 9}, .op = {.fix_gamma = false}, .relu = true};
    Numbers n(s);
    n.gamma[0] = 1e-12f;  // makes outputs that are positive but become zero when stored as float16
    n.beta[0] = 0;
    const Results by_input = run(s, n);
    Setting with_skip = s;
    with_skip.skip = true;
    n.skip = Floats(s.e.count());  // zeros: the same y, but read from memory
    const Results by_output = run(with_skip, n);
    for (const Result what : {kY, kDx, kDgamma, kDbeta}) CHECK(same_bits(by_input[what], by_output[what]));
  }
}

// With dy, dx or the skip's gradient at an odd address, the backward pass moves single values, but reads the same bits.
TEST_CASE("the signs of the relu are the same as bits and from the output", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Extent& e : {Extent{2, 64, 14, 14}, Extent{3, 24, 5, 7}}) {
      Setting s{.type = type, .e = e, .op = {.fix_gamma = false}, .skip = true, .relu = true};
      const Numbers n(s);
      const Results by_output = in_all_orders([&] { return run(s, n); });
      s.bits = true;
      const Results by_bits = in_all_orders([&] { return run(s, n); });
      for (size_t i = 0; i < by_output.size(); i++) CHECK(same_bits(by_output[i], by_bits[i]));
    }
  }
}

TEST_CASE("inference normalizes by the moving statistics", "[cuda]") {
  for (const Type type : kTypes) {
    for (const bool fix_gamma : {false, true}) {
      const Setting s{.type = type, .e = {2, 24, 5, 5}, .op = {.fix_gamma = fix_gamma}};
      const Numbers n(s);
      const Results r = in_all_orders([&] {
        const Map x(type, s.e, n.x), y(type, s.e);
        const Array mean = floats(n.moving_mean), var = floats(n.moving_var), gamma = floats(n.gamma),
                    beta = floats(n.beta);
        batch_norm_apply({.type = type,
                          .rows = pixels(s.e),
                          .channels = s.e.c,
                          .x = x.in(),
                          .mean = mean.floats(),
                          .variance = var.floats(),
                          .epsilon = s.op.epsilon,
                          .gamma = fix_gamma ? nullptr : gamma.floats(),
                          .beta = beta.floats(),
                          .y = y.out()},
                         nullptr);
        return Results{y.get()};
      });
      std::vector<double> truth(s.e.count());
      exec::reference::batch_norm_inference<double>(s.op, s.e, doubles(n.x), doubles(n.gamma), doubles(n.beta),
                                                    n.moving_mean, n.moving_var, truth);
      CHECK(error_of(r[0], truth) <= tolerance(type, 1));
    }
  }
}

// Images are normalized into rows of 4 or 8 channels, as a convolution reads them. The other results do not change.
TEST_CASE("batch norm sets additional channels to zero", "[cuda]") {
  constexpr int64_t kRows = 700, kChannels = 3;
  for (const auto& [type, pitch] : {std::pair(Type::kFloat32, 4), {Type::kFloat16, 4}, {Type::kBfloat16, 8}}) {
    INFO("type " << static_cast<int>(type));
    const Floats x = normals(kRows * kChannels, 1);
    const auto apply = [&, type = type](int64_t pitch, int64_t zeros) {
      return in_all_orders([&] {
        const Array from(type, x), to(type, Floats(static_cast<size_t>(kRows * pitch), 5));
        const Array mean = floats({0.5f, 0, 1}), inv_std = floats({1, 2, 3}), beta = floats({-1, 0, 1});
        batch_norm_apply({.type = type,
                          .rows = kRows,
                          .channels = kChannels,
                          .x = {from.data()},
                          .mean = mean.floats(),
                          .inv_std = inv_std.floats(),
                          .beta = beta.floats(),
                          .y = {to.data(), pitch},
                          .zeros = zeros},
                         nullptr);
        return Results{to.get()};
      })[0];
    };
    const Floats dense = apply(kChannels, 0), padded = apply(pitch, pitch - kChannels);
    for (size_t i = 0; i < padded.size(); i++) {
      const size_t row = i / static_cast<size_t>(pitch), channel = i % static_cast<size_t>(pitch);
      REQUIRE(padded[i] == (channel < kChannels ? dense[row * kChannels + channel] : 0));
    }
  }
}

TEST_CASE("batch norm reports the bytes that it moves", "[cuda]") {
  const Setting s{.type = Type::kFloat16, .e = {2, 64, 14, 14}, .op = {.fix_gamma = false}, .skip = true, .relu = true};
  const int64_t map = 2 * 64 * 14 * 14 * 2;
  const emulator::Session session;
  run(s, Numbers(s));
  REQUIRE(session.records().size() == 4);
  const auto bytes = [&](size_t i) { return session.records()[i].bytes; };
  const int64_t partials = bytes(0) - map - 6 * 64 * 4;
  CHECK(partials > 0);
  CHECK(partials <= batch_norm_workspace_bytes(s.type, pixels(s.e), s.e.c));
  CHECK(bytes(1) == 3 * map);
  CHECK(bytes(2) == 4 * map + partials + 5 * 64 * 4);
  CHECK(bytes(3) == 4 * map);

  Setting by_bits = s;
  by_bits.bits = true;
  const emulator::Session other;
  run(by_bits, Numbers(by_bits));
  CHECK(other.records()[1].bytes == 3 * map + map / 16);
  CHECK(other.records()[2].bytes == 3 * map + map / 16 + partials + 5 * 64 * 4);
  CHECK(other.records()[3].bytes == 4 * map);
}

}  // namespace dtrain::cuda::test
