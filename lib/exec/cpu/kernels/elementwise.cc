#include "exec/cpu/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/simd.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec::cpu {

namespace {

using Kind = graph::Activation::Kind;
using Sources = std::array<const float*, kSourcesMax>;

// The size of the pieces in which sums are computed. A piece fits the first-level cache, so that each source and the
// result cross the memory bus only once.
constexpr int64_t kPiece = 2048;

DT_MULTI_ISA void relu(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0.0f : x[i];  // the comparison is written so that a NaN stays a NaN
}

DT_MULTI_ISA void scale(const float* x, float factor, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = factor * x[i];
}

DT_MULTI_ISA void relu_backward(const float* y, const float* dy, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; i++) dx[i] = y[i] > 0 ? dy[i] : 0.0f;
}

DT_MULTI_ISA void tanh_backward(const float* y, const float* dy, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

DT_MULTI_ISA void sigmoid_backward(const float* y, const float* dy, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

void softrelu_backward(const float* y, const float* dy, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * -std::expm1(-y[i]);
}

DT_MULTI_ISA void softsign_backward(const float* y, const float* dy, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float rest = 1.0f - std::abs(y[i]);
    dx[i] = dy[i] * (rest * rest);
  }
}

DT_MULTI_ISA void softsign_piece(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + std::abs(x[i]));
}

void derive(Kind kind, const float* y, const float* dy, float* dx, int64_t n) {
  switch (kind) {
    case Kind::kRelu: return relu_backward(y, dy, dx, n);
    case Kind::kTanh: return tanh_backward(y, dy, dx, n);
    case Kind::kSigmoid: return sigmoid_backward(y, dy, dx, n);
    case Kind::kSoftrelu: return softrelu_backward(y, dy, dx, n);
    case Kind::kSoftsign: return softsign_backward(y, dy, dx, n);
  }
}

// Returns the sum of one piece: the source itself if there is only one, else `room`, to which the sum is written.
const float* sum_piece(const Sources& sources, int count, int64_t begin, int64_t n, float* room) {
  if (count == 1) return sources[0] + begin;
  add_pair(sources[0] + begin, sources[1] + begin, room, n);
  for (int s = 2; s < count; s++) add_pair(room, sources[static_cast<size_t>(s)] + begin, room, n);
  return room;
}

// Calls consume(begin, n, sum of the sources in begin .. begin + n) for all pieces, divided among the team's threads.
template <class Consume>
void for_sums(const float* const* sources, int count, int64_t n, const Consume& consume) {
  Sources copy{};
  for (int s = 0; s < count; s++) copy[static_cast<size_t>(s)] = sources[s];
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  parallel_shares(pieces, n, [&](int64_t first, int64_t last) {
    alignas(64) float room[kPiece];
    for (int64_t p = first; p < last; p++) {
      const int64_t begin = p * kPiece, size = std::min(kPiece, n - begin);
      consume(begin, size, sum_piece(copy, count, begin, size, room));
    }
  });
}

}  // namespace

DT_MULTI_ISA void add_pair(const float* a, const float* b, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void sum_sources(const float* const* sources, int count, float* y, int64_t n) {
  if (count == 2) {
    const float *a = sources[0], *b = sources[1];
    return parallel_shares(n, n,
                           [=](int64_t begin, int64_t end) { add_pair(a + begin, b + begin, y + begin, end - begin); });
  }
  for_sums(sources, count, n, [y](int64_t begin, int64_t size, const float* sum) {
    std::memmove(y + begin, sum, static_cast<size_t>(size) * sizeof(float));
  });
}

void activation_backward(Kind kind, const float* y, const float* const* sources, int count, float* dx, int64_t n) {
  for_sums(sources, count, n,
           [=](int64_t begin, int64_t size, const float* dy) { derive(kind, y + begin, dy, dx + begin, size); });
}

void softsign(const float* x, float* y, int64_t n) {
  parallel_shares(n, n, [=](int64_t begin, int64_t end) { softsign_piece(x + begin, y + begin, end - begin); });
}

void sum_relu(const float* const* sources, int count, float* y, int64_t n) {
  for_sums(sources, count, n, [y](int64_t begin, int64_t size, const float* sum) { relu(sum, y + begin, size); });
}

void scale_sum(const float* const* sources, int count, float factor, float* y, int64_t n) {
  for_sums(sources, count, n,
           [=](int64_t begin, int64_t size, const float* sum) { scale(sum, factor, y + begin, size); });
}

void fill_zero(float* y, int64_t n) {
  std::memset(y, 0, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace dtrain::exec::cpu
