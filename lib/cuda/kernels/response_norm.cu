#include "cuda/kernels/response_norm.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// The channels around a channel, from `begin` to `end` - 1. In these kernels, a thread computes one element. It reads
// the surrounding channels from the cache, because neighboring threads read them too.
struct Around {
  int64_t begin, end;
};
__device__ __forceinline__ Around around(const ResponseNormShape& s, int64_t channel) {
  const int64_t half = s.size / 2, begin = channel - half, end = channel + half + 1;
  return {begin < 0 ? 0 : begin, end < s.channels ? end : s.channels};
}

template <class T>
struct ForwardArguments {
  ResponseNormShape shape;
  Rows<T> x;
  float* d;
  RowsOut<T> y;
};

template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) response_kernel(const ForwardArguments<T> a) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= a.shape.channels) return;
  const Around cells = around(a.shape, channel);
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.shape.rows;
       row += gridDim.y * blockDim.y) {
    float sum = 0;
    for (int64_t c = cells.begin; c < cells.end; c++) {
      const float x = to_float(*a.x.at(row, c));
      sum += x * x;
    }
    const float d = a.shape.k + a.shape.alpha_each * sum;
    if (a.d != nullptr) a.d[row * a.shape.channels + channel] = d;
    *a.y.at(row, channel) = from_float<T>(to_float(*a.x.at(row, channel)) * powf(d, -a.shape.beta));
  }
}

template <class T>
struct BackwardArguments {
  ResponseNormShape shape;
  Rows<T> x, dy;
  const float* d;
  RowsOut<T> dx;
};

template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) response_backward_kernel(const BackwardArguments<T> a) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= a.shape.channels) return;
  const Around cells = around(a.shape, channel);
  const float beta = a.shape.beta, factor = 2 * beta * a.shape.alpha_each;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.shape.rows;
       row += gridDim.y * blockDim.y) {
    const float* d = a.d + row * a.shape.channels;
    float sum = 0;
    for (int64_t c = cells.begin; c < cells.end; c++) {
      sum += to_float(*a.dy.at(row, c)) * to_float(*a.x.at(row, c)) * powf(d[c], -beta - 1);
    }
    const float direct = to_float(*a.dy.at(row, channel)) * powf(d[channel], -beta);
    *a.dx.at(row, channel) = from_float<T>(direct - factor * to_float(*a.x.at(row, channel)) * sum);
  }
}

void check(const ResponseNormShape& s) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  DT_KERNEL_CHECK(s.size > 0 && s.size % 2 == 1 && s.k > 0, "the number of channels must be odd, and k above 0");
}

}  // namespace

void response_norm(const ResponseNorm& s, cudaStream_t stream) {
  check(s.shape);
  const auto [grid, block] = row_grid(s.shape.rows, s.shape.channels);
  const Launch what{.name = "response_norm",
                    .grid = grid,
                    .block = block,
                    .bytes = s.shape.rows * s.shape.channels * (2 * bytes_of(s.type) + (s.d == nullptr ? 0 : 4)),
                    .stream = stream};
  with_type(s.type, [&]<class T>() {
    launch(what, response_kernel<T>,
           ForwardArguments<T>{s.shape, rows_of<T>(s.x, s.shape.channels), s.d, rows_of<T>(s.y, s.shape.channels)});
  });
}

void response_norm_backward(const ResponseNormBackward& s, cudaStream_t stream) {
  check(s.shape);
  DT_KERNEL_CHECK(s.d != nullptr, "the backward pass needs the denominators that the forward pass stored");
  const auto [grid, block] = row_grid(s.shape.rows, s.shape.channels);
  const Launch what{.name = "response_norm_backward",
                    .grid = grid,
                    .block = block,
                    .bytes = s.shape.rows * s.shape.channels * (3 * bytes_of(s.type) + 4),
                    .stream = stream};
  with_type(s.type, [&]<class T>() {
    launch(what, response_backward_kernel<T>,
           BackwardArguments<T>{s.shape, rows_of<T>(s.x, s.shape.channels), rows_of<T>(s.dy, s.shape.channels), s.d,
                                rows_of<T>(s.dx, s.shape.channels)});
  });
}

}  // namespace dtrain::cuda
