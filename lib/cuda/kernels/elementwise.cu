#include "cuda/kernels/elementwise.h"

#include "cuda/kernels/reduction.cuh"

namespace dtrain::cuda {

namespace {

// The extent of a tensor. A tensor without gaps is treated as one long row, so that every thread has work for any
// number of channels.
struct Extent {
  int64_t rows, channels;
};
Extent flattened(Extent e, std::initializer_list<int64_t> pitches) {
  for (const int64_t pitch : pitches) {
    if (pitch != 0 && pitch != e.channels) return e;
  }
  return {1, e.rows * e.channels};
}

template <class T>
struct SumArguments {
  int64_t rows, groups;
  Rows<T> source[kSourcesMax];
  int count;
  bool relu;
  float factor;
  RowsOut<T> y;
};

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) sum_kernel(const SumArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float total[N], x[N];
    load<N>(a.source[0].at(row, channel), total);
    for (int i = 1; i < a.count; i++) {
      load<N>(a.source[i].at(row, channel), x);
#pragma unroll
      for (int k = 0; k < N; k++) total[k] += x[k];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
      total[k] *= a.factor;
      total[k] = a.relu && !(total[k] > 0) ? 0.0f : total[k];
    }
    store<N>(total, a.y.at(row, channel));
  }
}

__device__ float curve_at(Curve curve, float x) {
  switch (curve) {
    case Curve::kRelu: return x > 0 ? x : 0.0f;
    case Curve::kTanh: return tanhf(x);
    case Curve::kSigmoid: return 1 / (1 + expf(-x));
    case Curve::kSoftrelu: return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    case Curve::kSoftsign: return x / (1 + fabsf(x));
  }
  return x;
}

__device__ float slope_at(Curve curve, float y) {
  switch (curve) {
    case Curve::kRelu: return y > 0 ? 1.0f : 0.0f;
    case Curve::kTanh: return 1 - y * y;
    case Curve::kSigmoid: return y * (1 - y);
    case Curve::kSoftrelu: return -expm1f(-y);
    case Curve::kSoftsign: return (1 - fabsf(y)) * (1 - fabsf(y));
  }
  return 1;
}

template <class T>
struct ActivateArguments {
  int64_t rows, groups;
  Curve curve;
  Rows<T> x;
  RowsOut<T> y;
};

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) activate_kernel(const ActivateArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float x[N];
    load<N>(a.x.at(row, channel), x);
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = curve_at(a.curve, x[k]);
    store<N>(x, a.y.at(row, channel));
  }
}

template <class T>
struct ActivateBackwardArguments {
  int64_t rows, groups;
  Curve curve;
  Rows<T> y, dy, add;
  RowsOut<T> dx;
};

// Computes and stores dx in one row, and sets d to it.
template <class T, int N>
__device__ __forceinline__ void activate_backward_row(const ActivateBackwardArguments<T>& a, int64_t row,
                                                      int64_t channel, float (&d)[N]) {
  float y[N], add[N] = {};
  load<N>(a.y.at(row, channel), y);
  load<N>(a.dy.at(row, channel), d);
  if (a.add.data != nullptr) load<N>(a.add.at(row, channel), add);
#pragma unroll
  for (int k = 0; k < N; k++) d[k] = add[k] + d[k] * slope_at(a.curve, y[k]);
  store<N>(d, a.dx.at(row, channel));
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    activate_backward_kernel(const ActivateBackwardArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float d[N];
    activate_backward_row(a, row, channel, d);
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kReductionBlocksMin<N>)
    activate_backward_bias_kernel(const ActivateBackwardArguments<T> a, int64_t rows_each, const FinishSum finish) {
  const RowsOfThread mine(a.rows, rows_each, a.groups, N);
  float sum[N] = {};
  for (int64_t row = mine.begin; row < mine.end; row += mine.step) {
    float d[N];
    activate_backward_row(a, row, mine.channel, d);
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] += rounded<T>(d[k]);
  }
  finish_sum(finish, mine, sum);
}

// Converts 4 values at a time, which are 16 bytes in float32, the wider type. The last values are converted one by one.
template <class From, class To>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    convert_kernel(const From* from, To* to, int64_t count, bool wide) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, threads = int64_t{gridDim.x} * blockDim.x;
  const int64_t packs = wide ? count / 4 : 0;
  for (int64_t i = thread; i < packs; i += threads) {
    float x[4];
    load<4>(from + i * 4, x);
    store<4>(x, to + i * 4);
  }
  for (int64_t i = packs * 4 + thread; i < count; i += threads) to[i] = from_float<To>(to_float(from[i]));
}

template <class T>
ActivateBackwardArguments<T> arguments_of(const ActivateBackward& s, const Extent& e, const Width& width) {
  return {e.rows,
          width.groups(),
          s.curve,
          rows_of<T>(s.y, e.channels),
          rows_of<T>(s.dy, e.channels),
          rows_of<T>(s.add, e.channels),
          rows_of<T>(s.dx, e.channels)};
}

Width width_of(const ActivateBackward& s, const Extent& e) {
  return Width(s.type, e.channels).rows(s.y).rows(s.dy).rows(s.add).rows(s.dx);
}

int64_t bytes_moved(const ActivateBackward& s) {
  return (s.add.data == nullptr ? 3 : 4) * s.rows * s.channels * bytes_of(s.type);
}

void activate_backward_with_bias(const ActivateBackward& s, cudaStream_t stream) {
  const Extent e{s.rows, s.channels};
  const Width width = width_of(s, e);
  const Chunks chunks = chunks_of(s.rows, width.groups());
  const Launch what{
      .name = "activate_backward + bias",
      .grid = chunks.grid,
      .block = chunks.block,
      .bytes = bytes_moved(s) + bytes_of_partials(chunks.count, 1, s.channels) + s.channels * int64_t{sizeof(float)},
      .stream = stream};
  const FinishSum finish{partials_in<1>(s.workspace, s.counters, chunks, s.channels), s.dbias};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, activate_backward_bias_kernel<T, N>, arguments_of<T>(s, e, width), chunks.rows_each, finish);
  });
}

}  // namespace

void sum(const Sum& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(!s.sources.empty() && s.sources.size() <= size_t{kSourcesMax}, "there must be from 1 to 8 sources");
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  Extent e = flattened({s.rows, s.channels}, {s.y.pitch});
  for (const In& source : s.sources) {
    if (flattened({s.rows, s.channels}, {source.pitch}).rows != 1) e = {s.rows, s.channels};
  }
  Width width(s.type, e.channels);
  for (const In& source : s.sources) width.rows(source);
  width.rows(s.y);
  const auto [grid, block] = row_grid(e.rows, width.groups());
  const auto count = static_cast<int64_t>(s.sources.size());
  const Launch what{.name = count == 1 ? "copy" : "sum",
                    .grid = grid,
                    .block = block,
                    .bytes = (count + 1) * s.rows * s.channels * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    SumArguments<T> a{.rows = e.rows,
                      .groups = width.groups(),
                      .source = {},
                      .count = static_cast<int>(count),
                      .relu = s.relu,
                      .factor = s.factor,
                      .y = rows_of<T>(s.y, e.channels)};
    for (int i = 0; i < a.count; i++) a.source[i] = rows_of<T>(s.sources[static_cast<size_t>(i)], e.channels);
    launch(what, sum_kernel<T, N>, a);
  });
}

void activate(const Activate& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  const Extent e = flattened({s.rows, s.channels}, {s.x.pitch, s.y.pitch});
  const Width width = Width(s.type, e.channels).rows(s.x).rows(s.y);
  const auto [grid, block] = row_grid(e.rows, width.groups());
  const Launch what{.name = "activate",
                    .grid = grid,
                    .block = block,
                    .bytes = 2 * s.rows * s.channels * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, activate_kernel<T, N>,
           ActivateArguments<T>{e.rows, width.groups(), s.curve, rows_of<T>(s.x, e.channels),
                                rows_of<T>(s.y, e.channels)});
  });
}

void activate_backward(const ActivateBackward& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  if (s.dbias != nullptr) return activate_backward_with_bias(s, stream);
  const Extent e = flattened({s.rows, s.channels}, {s.y.pitch, s.dy.pitch, s.add.pitch, s.dx.pitch});
  const Width width = width_of(s, e);
  const auto [grid, block] = row_grid(e.rows, width.groups());
  const Launch what{
      .name = "activate_backward", .grid = grid, .block = block, .bytes = bytes_moved(s), .stream = stream};
  with_width(s.type, width.wide(),
             [&]<class T, int N>() { launch(what, activate_backward_kernel<T, N>, arguments_of<T>(s, e, width)); });
}

void convert(const Convert& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.count > 0, "the input is empty");
  DT_KERNEL_CHECK(s.from_type == Type::kFloat32 || s.to_type == Type::kFloat32, "one of the types must be float32");
  const auto [grid, block] = flat_grid(divide_up(s.count, 4));
  const Launch what{.name = "convert",
                    .grid = grid,
                    .block = block,
                    .bytes = s.count * (bytes_of(s.from_type) + bytes_of(s.to_type)),
                    .stream = stream};
  const bool wide = is_aligned(s.from) && is_aligned(s.to);
  if (s.to_type == Type::kFloat32) {
    with_type(s.from_type, [&]<class T>() {
      launch(what, convert_kernel<T, float>, static_cast<const T*>(s.from), static_cast<float*>(s.to), s.count, wide);
    });
  } else {
    with_type(s.to_type, [&]<class T>() {
      launch(what, convert_kernel<float, T>, static_cast<const float*>(s.from), static_cast<T*>(s.to), s.count, wide);
    });
  }
}

}  // namespace dtrain::cuda
