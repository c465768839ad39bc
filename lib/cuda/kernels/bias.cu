#include "cuda/kernels/bias.h"

#include "cuda/kernels/reduction.cuh"

namespace dtrain::cuda {

namespace {

template <class T>
struct AddArguments {
  int64_t rows, groups;
  Rows<T> x;
  const float* bias;
  RowsOut<T> y;
};

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) add_kernel(const AddArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  float bias[N];
  load_parameters<N>(a.bias + channel, bias);
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float x[N];
    load<N>(a.x.at(row, channel), x);
#pragma unroll
    for (int k = 0; k < N; k++) x[k] += bias[k];
    store<N>(x, a.y.at(row, channel));
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kReductionBlocksMin<N>)
    gradient_kernel(Rows<T> dy, int64_t rows, int64_t rows_each, int64_t groups, const FinishSum finish) {
  const RowsOfThread mine(rows, rows_each, groups, N);
  float sum[N] = {};
  for (int64_t row = mine.begin; row < mine.end; row += mine.step) {
    float d[N];
    load<N>(dy.at(row, mine.channel), d);
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] += d[k];
  }
  finish_sum(finish, mine, sum);
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    image_sum_kernel(const T* x, int64_t images, int64_t elements, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x * N;
  for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N; i < elements; i += step) {
    float sum[N] = {};
#pragma unroll 4
    for (int64_t image = 0; image < images; image++) {
      float value[N];
      load<N>(x + image * elements + i, value);
#pragma unroll
      for (int k = 0; k < N; k++) sum[k] += value[k];
    }
    store<N>(sum, y + i);
  }
}

}  // namespace

void bias_add(const BiasAdd& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  const Width width = Width(s.type, s.channels).rows(s.x).rows(s.y);
  const auto [grid, block] = row_grid(s.rows, width.groups());
  const Launch what{.name = "bias_add",
                    .grid = grid,
                    .block = block,
                    .bytes = 2 * s.rows * s.channels * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, add_kernel<T, N>,
           AddArguments<T>{s.rows, width.groups(), rows_of<T>(s.x, s.channels), s.bias, rows_of<T>(s.y, s.channels)});
  });
}

int64_t bias_workspace_bytes(Type type, int64_t rows, int64_t channels) {
  return partials_bytes(type, rows, channels, 1);
}

int64_t bias_counters(int64_t channels) {
  return counters_of(channels);
}

void bias_gradient(const BiasGradient& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the gradient is empty");
  const Width width = Width(s.type, s.channels).rows(s.dy);
  const Chunks chunks = chunks_of(s.rows, width.groups());
  const Launch what{.name = "bias_gradient",
                    .grid = chunks.grid,
                    .block = chunks.block,
                    .bytes = s.rows * s.channels * bytes_of(s.type) + bytes_of_partials(chunks.count, 1, s.channels) +
                             s.channels * int64_t{sizeof(float)},
                    .stream = stream};
  const FinishSum finish{partials_in<1>(s.workspace, s.counters, chunks, s.channels), s.dbias};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, gradient_kernel<T, N>, rows_of<T>(s.dy, s.channels), s.rows, chunks.rows_each, width.groups(), finish);
  });
}

void image_sum(const ImageSum& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.images > 0 && s.elements > 0, "the input is empty");
  const Width width = Width(s.type, s.elements).rows(s.x, s.elements).rows(s.y, s.elements);
  const auto [grid, block] = flat_grid(width.groups());
  const Launch what{.name = "image_sum",
                    .grid = grid,
                    .block = block,
                    .bytes = (s.images + 1) * s.elements * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, image_sum_kernel<T, N>, static_cast<const T*>(s.x), s.images, s.elements, static_cast<T*>(s.y));
  });
}

}  // namespace dtrain::cuda
