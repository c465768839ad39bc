#include "exec/cpu/kernels/dense.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/simd.h"
#include "exec/cpu/arena.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec::cpu {

namespace {

blasint dim(int64_t value) {
  return static_cast<blasint>(value);
}

DT_MULTI_ISA void add_rows(const float* x, int64_t rows, int64_t stride, float* sum, int64_t n) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < n; i++) sum[i] += x[r * stride + i];
  }
}

// Runs work(begin, end) with shares of `n` rows of the layer's product. Inside a parallel region, OpenBLAS computes a
// product on one thread. If OpenBLAS divided the work itself, it would allocate 512 KiB at each call on some
// processors.
template <class Work>
void share_product(const DenseShape& s, int64_t n, const Work& work) {
  // This number of multiplications takes as long as one unit of parallel_shares' cost.
  constexpr int64_t kMultiplicationsPerElement = 8;
  parallel_shares(n, s.rows * s.inputs * s.outputs / kMultiplicationsPerElement, work);
}

void softmax_row(const float* x, int64_t n, float* p) {
  const float top = *std::max_element(x, x + n);
  float sum = 0;
  for (int64_t i = 0; i < n; i++) {
    p[i] = std::exp(x[i] - top);
    sum += p[i];
  }
  for (int64_t i = 0; i < n; i++) p[i] /= sum;
}

}  // namespace

void reserve_product_memory() {
  // The size that OpenBLAS 0.3 on x86-64 gives each thread's buffer (BUFFER_SIZE).
  constexpr size_t kBufferBytes = size_t{128} << 20;
  // Edge of the matrices: with this size a product takes long compared with starting a thread.
  constexpr int kSize = 128;
  constexpr int kProducts = 4;
  const int threads = omp_get_max_threads();
  const std::vector<float> zeros(kSize * kSize);
  // The threads are started and allocate their first memory before the check of the address space below, because both
  // take address space too.
  std::vector<std::unique_ptr<float[]>> results(static_cast<size_t>(threads));
#pragma omp parallel
  results[static_cast<size_t>(omp_get_thread_num())].reset(new (std::nothrow) float[kSize * kSize]);
  if (std::find(results.begin(), results.end(), nullptr) != results.end()) throw std::bad_alloc();
  require_address_space(kBufferBytes * static_cast<size_t>(threads));
  // A thread that begins after another one has ended takes over its buffer, so no thread may end before all have begun.
  std::atomic<int> begun{0};
#pragma omp parallel
  {
    float* const result = results[static_cast<size_t>(omp_get_thread_num())].get();
    begun++;
    for (int left = kProducts; left > 0; left -= begun == omp_get_num_threads() ? 1 : 0) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f, zeros.data(), kSize,
                  zeros.data(), kSize, 0.0f, result, kSize);
    }
  }
}

void dense_forward(const DenseShape& s, const float* x, const float* w, const float* b, float* y) {
  share_product(s, s.rows, [&](int64_t begin, int64_t end) {
    float* const out = y + begin * s.outputs;
    for (int64_t r = 0; b != nullptr && r < end - begin; r++) {
      std::memcpy(out + r * s.outputs, b, static_cast<size_t>(s.outputs) * sizeof(float));
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, dim(end - begin), dim(s.outputs), dim(s.inputs), 1.0f,
                x + begin * s.inputs, dim(s.inputs), w, dim(s.inputs), b != nullptr ? 1.0f : 0.0f, out, dim(s.outputs));
  });
}

void dense_backward_data(const DenseShape& s, const float* dy, const float* w, float* dx) {
  share_product(s, s.rows, [&](int64_t begin, int64_t end) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, dim(end - begin), dim(s.inputs), dim(s.outputs), 1.0f,
                dy + begin * s.outputs, dim(s.outputs), w, dim(s.inputs), 0.0f, dx + begin * s.inputs, dim(s.inputs));
  });
}

void dense_backward_weights(const DenseShape& s, const float* x, const float* dy, float* dw) {
  share_product(s, s.outputs, [&](int64_t begin, int64_t end) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dim(end - begin), dim(s.inputs), dim(s.rows), 1.0f, dy + begin,
                dim(s.outputs), x, dim(s.inputs), 0.0f, dw + begin * s.inputs, dim(s.inputs));
  });
}

void dense_backward_bias(const DenseShape& s, const float* dy, float* db) {
  parallel_shares(s.outputs, s.rows * s.outputs, [&](int64_t begin, int64_t end) {
    std::fill(db + begin, db + end, 0.0f);
    add_rows(dy + begin, s.rows, s.outputs, db + begin, end - begin);
  });
}

void softmax_forward(int64_t rows, int64_t classes, const float* x, float* p) {
  parallel_shares(rows, rows * classes * 8,
                  [&](int64_t begin, int64_t end) {  // the factor 8: an exponential costs about as much as 8 copies
                    for (int64_t r = begin; r < end; r++) softmax_row(x + r * classes, classes, p + r * classes);
                  });
}

void softmax_backward(const graph::SoftmaxOutput& op, int64_t rows, int64_t classes, const float* p,
                      const float* labels, float* dx) {
  const auto on = static_cast<float>(1 - op.smooth_alpha);
  const auto off = static_cast<float>(classes > 1 ? op.smooth_alpha / static_cast<double>(classes - 1) : 0);
  const float factor = op.factor(rows);
  parallel_shares(rows, rows * classes, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const auto label = static_cast<int64_t>(labels[r]);
      for (int64_t c = 0; c < classes; c++) {
        dx[r * classes + c] = factor * (p[r * classes + c] - (c == label ? on : off));
      }
    }
  });
}

}  // namespace dtrain::exec::cpu
