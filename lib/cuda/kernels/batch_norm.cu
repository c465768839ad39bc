#include "cuda/kernels/batch_norm.h"

#include "cuda/kernels/reduction.cuh"

namespace dtrain::cuda {

namespace {

// Mean and sum of squared deviations of `count` numbers in each of N channels.
template <int N>
struct Moments {
  float count = 0, mean[N] = {}, squares[N] = {};

  // Merges the moments of `more` further numbers.
  __device__ __forceinline__ void merge(float more, const float (&their_mean)[N], const float (&their_squares)[N]) {
    const float all = count + more, weight = more / all, both = count * weight;
#pragma unroll
    for (int k = 0; k < N; k++) {
      const float difference = their_mean[k] - mean[k];
      mean[k] += difference * weight;
      squares[k] += their_squares[k] + difference * difference * both;
    }
    count = all;
  }
};

// How many rows' moments are computed in registers before a merge, so that the rows share the merge's division.
constexpr int kRowsTogether = 4;

template <int R, class T, int N>
__device__ __forceinline__ void absorb(const Rows<T>& x, int64_t row, int64_t step, int64_t channel, Moments<N>& m) {
  float value[R][N], mean[N] = {}, squares[N] = {};
#pragma unroll
  for (int r = 0; r < R; r++) load<N>(x.at(row + r * step, channel), value[r]);
#pragma unroll
  for (int k = 0; k < N; k++) {
#pragma unroll
    for (int r = 0; r < R; r++) mean[k] += value[r][k];
    mean[k] *= 1.0f / R;
#pragma unroll
    for (int r = 0; r < R; r++) squares[k] += (value[r][k] - mean[k]) * (value[r][k] - mean[k]);
  }
  m.merge(R, mean, squares);
}

// partials [chunk][mean, squares][channel]
template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    statistics_kernel(Rows<T> x, int64_t rows, int64_t rows_each, int64_t groups, float* partials) {
  __shared__ float count[kBlockThreads], mean[N][kBlockThreads], squares[N][kBlockThreads];
  const RowsOfThread mine(rows, rows_each, groups, N);
  Moments<N> m;
  int64_t row = mine.begin;
  for (; row + (kRowsTogether - 1) * mine.step < mine.end; row += kRowsTogether * mine.step) {
    absorb<kRowsTogether>(x, row, mine.step, mine.channel, m);
  }
  for (; row < mine.end; row += mine.step) absorb<1>(x, row, mine.step, mine.channel, m);
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const auto put = [&] {
    count[thread] = m.count;
#pragma unroll
    for (int k = 0; k < N; k++) {
      mean[k][thread] = m.mean[k];
      squares[k][thread] = m.squares[k];
    }
  };
  put();
  merge_block_rows([&](unsigned from) {
    if (count[from] == 0) return;
    float their_mean[N], their_squares[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
      their_mean[k] = mean[k][from];
      their_squares[k] = squares[k][from];
    }
    m.merge(count[from], their_mean, their_squares);
    put();
  });
  if (threadIdx.y != 0 || !mine.active) return;
  const int64_t channels = groups * N;
  float* out = partials + int64_t{blockIdx.y} * 2 * channels + mine.channel;
#pragma unroll
  for (int k = 0; k < N; k++) {
    out[k] = m.mean[k];
    out[channels + k] = m.squares[k];
  }
}

struct FinishStatistics {
  int64_t rows, channels, chunks, rows_each;
  float epsilon, keep, take;  // factors of the old moving statistics and of the batch's
  const float* partials;
  float *mean, *inv_std, *moving_mean, *moving_var;
};

__global__ void __launch_bounds__(kFinalChannels* kFinalThreads) finish_statistics_kernel(const FinishStatistics a) {
  __shared__ float memory[kFinalChannels * kFinalThreads];
  const int64_t channel = int64_t{blockIdx.x} * kFinalChannels + threadIdx.x;
  const bool active = channel < a.channels;
  const auto mean_of = [&](int64_t chunk) { return a.partials[chunk * 2 * a.channels + channel]; };
  const auto rows_of_chunk = [&](int64_t chunk) {
    const int64_t left = a.rows - chunk * a.rows_each;
    return static_cast<float>(left < a.rows_each ? left : a.rows_each);
  };
  const auto m = static_cast<float>(a.rows);
  const float mean =
      sum_chunks(a.chunks, active, memory, [&](int64_t chunk) { return rows_of_chunk(chunk) * mean_of(chunk); }) / m;
  const float squares = sum_chunks(a.chunks, active, memory, [&](int64_t chunk) {
    const float difference = mean_of(chunk) - mean;
    return a.partials[(chunk * 2 + 1) * a.channels + channel] + rows_of_chunk(chunk) * (difference * difference);
  });
  if (!active || threadIdx.y != 0) return;
  const float variance = squares / m;
  a.mean[channel] = mean;
  a.inv_std[channel] = 1 / sqrtf(variance + a.epsilon);
  a.moving_mean[channel] = a.keep * a.moving_mean[channel] + a.take * mean;
  a.moving_var[channel] = a.keep * a.moving_var[channel] + a.take * variance;
}

// A thread's parameters of its channels: y = (x - mean) * scale + beta.
template <int N>
struct Affine {
  float mean[N], scale[N], beta[N];
};

// One function for both passes, so that the backward pass computes exactly the sign that the forward pass stored.
template <int N>
__device__ __forceinline__ void normalise(const Affine<N>& affine, float (&x)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) x[k] = (x[k] - affine.mean[k]) * affine.scale[k] + affine.beta[k];
}

template <int N>
__device__ __forceinline__ void load_scale(const float* gamma, const float* inv_std, int64_t channel,
                                           float (&scale)[N]) {
  load_parameters<N>(inv_std + channel, scale);
  if (gamma == nullptr) return;
  float g[N];
  load_parameters<N>(gamma + channel, g);
#pragma unroll
  for (int k = 0; k < N; k++) scale[k] = g[k] * scale[k];
}

template <class T>
struct ApplyArguments {
  int64_t rows, groups;
  Rows<T> x, skip;
  const float *mean, *inv_std, *variance, *gamma, *beta;
  float epsilon;
  bool relu;
  RowsOut<T> y;
};

template <int N, class T>
__device__ __forceinline__ Affine<N> load_affine(const ApplyArguments<T>& a, int64_t channel) {
  Affine<N> affine;
  load_parameters<N>(a.mean + channel, affine.mean);
  load_parameters<N>(a.beta + channel, affine.beta);
  if (a.inv_std != nullptr) {
    load_scale<N>(a.gamma, a.inv_std, channel, affine.scale);
    return affine;
  }
#pragma unroll
  for (int k = 0; k < N; k++) {
    const float inv_std = 1 / sqrtf(a.variance[channel + k] + a.epsilon);
    affine.scale[k] = a.gamma == nullptr ? inv_std : a.gamma[channel + k] * inv_std;
  }
  return affine;
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) apply_kernel(const ApplyArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  const Affine<N> affine = load_affine<N>(a, channel);
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float x[N], skip[N] = {};
    load<N>(a.x.at(row, channel), x);
    if (a.skip.data != nullptr) load<N>(a.skip.at(row, channel), skip);
    normalise(affine, x);
    if (a.skip.data != nullptr) {
#pragma unroll
      for (int k = 0; k < N; k++) x[k] += skip[k];
    }
    if (a.relu) {
#pragma unroll
      for (int k = 0; k < N; k++) x[k] = x[k] > 0 ? x[k] : 0.0f;
    }
    store<N>(x, a.y.at(row, channel));
  }
}

// How it is known where the ReLU passes the gradient.
enum class Mask { kNone, kByOutput, kByInput };

template <class T>
struct BackwardArguments {
  int64_t rows, groups, rows_each;
  Mask mask;
  Rows<T> x, y, dy, add;
  const float *mean, *inv_std, *gamma, *beta;
  RowsOut<T> dskip, dx;
  float* partials;    // [chunk][sum dz, sum dz (x - mean)][channel]
  const float* sums;  // [sum dz / m, sum dz xhat / m][channel]
};

template <int N, class T>
__device__ __forceinline__ Affine<N> load_affine(const BackwardArguments<T>& a, int64_t channel) {
  Affine<N> affine{};
  load_parameters<N>(a.mean + channel, affine.mean);
  load_scale<N>(a.gamma, a.inv_std, channel, affine.scale);
  if (a.mask == Mask::kByInput) load_parameters<N>(a.beta + channel, affine.beta);
  return affine;
}

// Sets d to zero where the ReLU's output is zero.
template <class T, int N>
__device__ __forceinline__ void mask_gradient(const BackwardArguments<T>& a, const Affine<N>& affine, int64_t row,
                                              int64_t channel, const float (&x)[N], float (&d)[N]) {
  if (a.mask == Mask::kNone) return;
  float y[N];
  if (a.mask == Mask::kByOutput) {
    load<N>(a.y.at(row, channel), y);
  } else {
#pragma unroll
    for (int k = 0; k < N; k++) y[k] = x[k];
    normalise(affine, y);
  }
#pragma unroll
  for (int k = 0; k < N; k++) d[k] = rounded<T>(y[k]) > 0 ? d[k] : 0.0f;
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) backward_sums_kernel(const BackwardArguments<T> a) {
  __shared__ float memory[2][N][kBlockThreads];
  const RowsOfThread mine(a.rows, a.rows_each, a.groups, N);
  float sum[N] = {}, product[N] = {};
  Affine<N> affine{};
  if (mine.active) affine = load_affine<N>(a, mine.channel);
  for (int64_t row = mine.begin; row < mine.end; row += mine.step) {
    float x[N], d[N];
    load<N>(a.x.at(row, mine.channel), x);
    load<N>(a.dy.at(row, mine.channel), d);
    mask_gradient(a, affine, row, mine.channel, x, d);
    if (a.dskip.data != nullptr) store<N>(d, a.dskip.at(row, mine.channel));
#pragma unroll
    for (int k = 0; k < N; k++) {
      sum[k] += d[k];
      product[k] += d[k] * (x[k] - affine.mean[k]);
    }
  }
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < N; k++) {
    memory[0][k][thread] = sum[k];
    memory[1][k][thread] = product[k];
  }
  merge_block_rows([&](unsigned from) {
#pragma unroll
    for (int k = 0; k < N; k++) {
      memory[0][k][thread] += memory[0][k][from];
      memory[1][k][thread] += memory[1][k][from];
    }
  });
  if (threadIdx.y != 0 || !mine.active) return;
  const int64_t channels = a.groups * N;
  float* out = a.partials + int64_t{blockIdx.y} * 2 * channels + mine.channel;
#pragma unroll
  for (int k = 0; k < N; k++) {
    out[k] = memory[0][k][thread];
    out[channels + k] = memory[1][k][thread];
  }
}

struct FinishBackward {
  int64_t channels, chunks;
  float rows;
  const float *partials, *inv_std;
  bool fixed_gamma;
  float *dgamma, *dbeta, *sums;
};

__global__ void __launch_bounds__(kFinalChannels* kFinalThreads) finish_backward_kernel(const FinishBackward a) {
  __shared__ float memory[kFinalChannels * kFinalThreads];
  const int64_t channel = int64_t{blockIdx.x} * kFinalChannels + threadIdx.x;
  const bool active = channel < a.channels;
  const auto partial = [&](int64_t i) { return a.partials[i * a.channels + channel]; };
  const float sum = sum_chunks(a.chunks, active, memory, [&](int64_t chunk) { return partial(chunk * 2); });
  const float product = sum_chunks(a.chunks, active, memory, [&](int64_t chunk) { return partial(chunk * 2 + 1); });
  if (!active || threadIdx.y != 0) return;
  const float sum_normal = product * a.inv_std[channel];
  a.dbeta[channel] = sum;
  a.dgamma[channel] = a.fixed_gamma ? 0.0f : sum_normal;
  a.sums[channel] = sum / a.rows;
  a.sums[a.channels + channel] = sum_normal / a.rows;
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) backward_apply_kernel(const BackwardArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  const Affine<N> affine = load_affine<N>(a, channel);
  float inv_std[N], sum[N], slope[N];  // slope: factor of (x - mean) in the subtracted term
  load_parameters<N>(a.inv_std + channel, inv_std);
  load_parameters<N>(a.sums + channel, sum);
  load_parameters<N>(a.sums + a.groups * N + channel, slope);
#pragma unroll
  for (int k = 0; k < N; k++) slope[k] *= inv_std[k];
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float x[N], d[N], add[N] = {};
    load<N>(a.x.at(row, channel), x);
    load<N>(a.dy.at(row, channel), d);
    if (a.add.data != nullptr) load<N>(a.add.at(row, channel), add);
    mask_gradient(a, affine, row, channel, x, d);
#pragma unroll
    for (int k = 0; k < N; k++) {
      d[k] = add[k] + affine.scale[k] * (d[k] - sum[k] - (x[k] - affine.mean[k]) * slope[k]);
    }
    store<N>(d, a.dx.at(row, channel));
  }
}

int64_t bytes_of_partials(const Chunks& chunks, int64_t channels) {
  return chunks.count * 2 * channels * int64_t{sizeof(float)};
}

// The sums are after the partial results, at an offset that does not depend on how many partial results are used.
float* sums_of(void* workspace, Type type, int64_t rows, int64_t channels) {
  return static_cast<float*>(workspace) + partials_bytes(type, rows, channels, 2) / int64_t{sizeof(float)};
}

void finish_statistics(const BatchNormStatistics& s, const Chunks& chunks, cudaStream_t stream) {
  const auto [grid, block] = final_grid(s.channels);
  launch({.name = "batch_norm_finish",
          .grid = grid,
          .block = block,
          .bytes = bytes_of_partials(chunks, s.channels) + 6 * s.channels * int64_t{sizeof(float)},
          .stream = stream},
         finish_statistics_kernel,
         FinishStatistics{.rows = s.rows,
                          .channels = s.channels,
                          .chunks = chunks.count,
                          .rows_each = chunks.rows_each,
                          .epsilon = static_cast<float>(s.epsilon),
                          .keep = static_cast<float>(s.momentum),
                          .take = static_cast<float>(1 - s.momentum),
                          .partials = static_cast<const float*>(s.workspace),
                          .mean = s.mean,
                          .inv_std = s.inv_std,
                          .moving_mean = s.moving_mean,
                          .moving_var = s.moving_var});
}

Width width_of(const BatchNormBackward& s) {
  return Width(s.type, s.channels)
      .rows(s.x)
      .rows(s.y)
      .rows(s.dy)
      .rows(s.add)
      .rows(s.dskip)
      .rows(s.dx)
      .parameters({s.mean, s.inv_std, s.gamma, s.beta, sums_of(s.workspace, s.type, s.rows, s.channels)});
}

Mask mask_of(const BatchNormBackward& s) {
  if (!s.relu) return Mask::kNone;
  return s.y.data != nullptr ? Mask::kByOutput : Mask::kByInput;
}

template <class T>
BackwardArguments<T> arguments_of(const BatchNormBackward& s, const Width& width, const Chunks& chunks) {
  return {.rows = s.rows,
          .groups = width.groups(),
          .rows_each = chunks.rows_each,
          .mask = mask_of(s),
          .x = rows_of<T>(s.x, s.channels),
          .y = rows_of<T>(s.y, s.channels),
          .dy = rows_of<T>(s.dy, s.channels),
          .add = rows_of<T>(s.add, s.channels),
          .mean = s.mean,
          .inv_std = s.inv_std,
          .gamma = s.gamma,
          .beta = s.beta,
          .dskip = rows_of<T>(s.dskip, s.channels),
          .dx = rows_of<T>(s.dx, s.channels),
          .partials = static_cast<float*>(s.workspace),
          .sums = sums_of(s.workspace, s.type, s.rows, s.channels)};
}

// The arguments of the second pass. If dskip was written, it is read in place of dy, and no mask is needed.
template <class T>
BackwardArguments<T> second_pass(const BatchNormBackward& s, BackwardArguments<T> a) {
  if (s.dskip.data == nullptr) return a;
  a.dy = {a.dskip.data, a.dskip.pitch};
  a.mask = Mask::kNone;
  return a;
}

void backward_sums(const BatchNormBackward& s, const Width& width, const Chunks& chunks, cudaStream_t stream) {
  const int64_t maps = 2 + (mask_of(s) == Mask::kByOutput ? 1 : 0) + (s.dskip.data != nullptr ? 1 : 0);
  const Launch what{.name = "batch_norm_backward_sums",
                    .grid = chunks.grid,
                    .block = chunks.block,
                    .bytes = maps * s.rows * s.channels * bytes_of(s.type) + bytes_of_partials(chunks, s.channels),
                    .stream = stream};
  with_width(s.type, width.wide(),
             [&]<class T, int N>() { launch(what, backward_sums_kernel<T, N>, arguments_of<T>(s, width, chunks)); });
}

void finish_backward(const BatchNormBackward& s, const Chunks& chunks, cudaStream_t stream) {
  const auto [grid, block] = final_grid(s.channels);
  launch({.name = "batch_norm_backward_finish",
          .grid = grid,
          .block = block,
          .bytes = bytes_of_partials(chunks, s.channels) + 5 * s.channels * int64_t{sizeof(float)},
          .stream = stream},
         finish_backward_kernel,
         FinishBackward{.channels = s.channels,
                        .chunks = chunks.count,
                        .rows = static_cast<float>(s.rows),
                        .partials = static_cast<const float*>(s.workspace),
                        .inv_std = s.inv_std,
                        .fixed_gamma = s.gamma == nullptr,
                        .dgamma = s.dgamma,
                        .dbeta = s.dbeta,
                        .sums = sums_of(s.workspace, s.type, s.rows, s.channels)});
}

void backward_apply(const BatchNormBackward& s, const Width& width, const Chunks& chunks, cudaStream_t stream) {
  const bool reads_y = mask_of(s) == Mask::kByOutput && s.dskip.data == nullptr;
  const int64_t maps = 3 + (reads_y ? 1 : 0) + (s.add.data != nullptr ? 1 : 0);
  const auto [grid, block] = row_grid(s.rows, width.groups());
  const Launch what{.name = "batch_norm_backward_apply",
                    .grid = grid,
                    .block = block,
                    .bytes = maps * s.rows * s.channels * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, backward_apply_kernel<T, N>, second_pass(s, arguments_of<T>(s, width, chunks)));
  });
}

}  // namespace

int64_t batch_norm_workspace_bytes(Type type, int64_t rows, int64_t channels) {
  return partials_bytes(type, rows, channels, 2) + 2 * channels * int64_t{sizeof(float)};
}

void batch_norm_statistics(const BatchNormStatistics& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "statistics of nothing");
  const Width width = Width(s.type, s.channels).rows(s.x);
  const Chunks chunks = chunks_of(s.rows, width.groups());
  const Launch what{.name = "batch_norm_statistics",
                    .grid = chunks.grid,
                    .block = chunks.block,
                    .bytes = s.rows * s.channels * bytes_of(s.type) + bytes_of_partials(chunks, s.channels),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, statistics_kernel<T, N>, rows_of<T>(s.x, s.channels), s.rows, chunks.rows_each, width.groups(),
           static_cast<float*>(s.workspace));
  });
  finish_statistics(s, chunks, stream);
}

void batch_norm_apply(const BatchNormApply& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "a batch norm of nothing");
  DT_KERNEL_CHECK((s.inv_std == nullptr) != (s.variance == nullptr), "either inv_std or variance");
  const Width width =
      Width(s.type, s.channels).rows(s.x).rows(s.skip).rows(s.y).parameters({s.mean, s.inv_std, s.gamma, s.beta});
  const auto [grid, block] = row_grid(s.rows, width.groups());
  const int64_t maps = s.skip.data == nullptr ? 2 : 3;
  const Launch what{.name = "batch_norm_apply",
                    .grid = grid,
                    .block = block,
                    .bytes = maps * s.rows * s.channels * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, apply_kernel<T, N>,
           ApplyArguments<T>{.rows = s.rows,
                             .groups = width.groups(),
                             .x = rows_of<T>(s.x, s.channels),
                             .skip = rows_of<T>(s.skip, s.channels),
                             .mean = s.mean,
                             .inv_std = s.inv_std,
                             .variance = s.variance,
                             .gamma = s.gamma,
                             .beta = s.beta,
                             .epsilon = static_cast<float>(s.epsilon),
                             .relu = s.relu,
                             .y = rows_of<T>(s.y, s.channels)});
  });
}

void batch_norm_backward(const BatchNormBackward& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "a batch norm of nothing");
  DT_KERNEL_CHECK(s.dskip.data == nullptr || s.relu, "without a ReLU the gradient of the skip is dy itself");
  const Width width = width_of(s);
  const Chunks chunks = chunks_of(s.rows, width.groups());
  backward_sums(s, width, chunks, stream);
  finish_backward(s, chunks, stream);
  if (s.dx.data != nullptr) backward_apply(s, width, chunks, stream);
}

}  // namespace dtrain::cuda
