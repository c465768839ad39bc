// The forward pass of batch normalization: the statistics of a batch, and their application. The backward pass is
// batch_norm_backward.cu.
#include "cuda/kernels/batch_norm.h"

#include "cuda/kernels/batch_norm.cuh"
#include "cuda/kernels/reduction.cuh"

namespace dtrain::cuda {

namespace {

// Mean and sum of squared deviations of `count` values in each of N channels.
template <int N>
struct Moments {
  float count = 0, mean[N] = {}, squares[N] = {};

  // Merges the moments of `more` additional values.
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

// The number of rows whose moments are computed in registers and merged at once, so that they share the merge's
// division.
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

// The partial results of a chunk are the mean and the sum of the squared deviations of its rows.
struct FinishStatistics {
  Partials<2> partials;
  int64_t rows, rows_each;
  float rows_of_chunk, rows_of_last;
  float epsilon, keep, take;  // keep: factor of the old moving statistics; take: of the batch's
  float *mean, *inv_std, *moving_mean, *moving_var;

  // Sums the differences from the first chunk's mean, which is close to the overall mean, so that one pass is enough.
  [[nodiscard]] __device__ __forceinline__ float near(int64_t channel) const {
    return partials.of_chunk(0, channel).of[0];
  }
  [[nodiscard]] __device__ __forceinline__ auto terms(int64_t channel) const {
    return [this, channel, first = near(channel)](int64_t chunk) {
      const Sums<2> moments = partials.of_chunk(chunk, channel);
      const float difference = moments.of[0] - first,
                  weighted = (chunk + 1 < partials.chunks ? rows_of_chunk : rows_of_last) * difference;
      return Sums<2>{{weighted, moments.of[1] + weighted * difference}};
    };
  }
  __device__ __forceinline__ void result(int64_t channel, const Sums<2>& sums) const {
    const auto m = static_cast<float>(rows);
    const float difference = sums.of[0] / m, average = near(channel) + difference;
    const float squares = sums.of[1] - sums.of[0] * difference;
    const float variance = squares < 0 ? 0.0f : squares / m;  // rounding can make squares negative; NaN stays NaN
    mean[channel] = average;
    inv_std[channel] = 1 / sqrtf(variance + epsilon);
    moving_mean[channel] = keep * moving_mean[channel] + take * average;
    moving_var[channel] = keep * moving_var[channel] + take * variance;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kReductionBlocksMin<N>)
    statistics_kernel(Rows<T> x, int64_t groups, const FinishStatistics finish) {
  __shared__ float count[kBlockThreads], mean[N][kBlockThreads], squares[N][kBlockThreads];
  const RowsOfThread mine(finish.rows, finish.rows_each, groups, N);
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
  if (threadIdx.y == 0 && mine.active) {
    finish.partials.write(blockIdx.y, 0, mine.channel, m.mean);
    finish.partials.write(blockIdx.y, 1, mine.channel, m.squares);
  }
  finish_tile<N>(finish);
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    inverse_kernel(const float* variance, float epsilon, float* inv_std, int64_t channels) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel < channels) inv_std[channel] = 1 / sqrtf(variance[channel] + epsilon);
}

template <class T>
struct ApplyArguments {
  int64_t rows, groups, zeros;
  Rows<T> x, skip;
  const float *mean, *inv_std, *variance, *gamma, *beta;
  float epsilon;
  bool relu;
  RowsOut<T> y;
  uint8_t* passed;
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

// In the result, bit k is 1 if the k-th value is above 0 after it is rounded to the type in which it is stored.
template <class T, int N>
__device__ __forceinline__ uint8_t bits_above_zero(const float (&y)[N]) {
  unsigned bits = 0;
#pragma unroll
  for (int k = 0; k < N; k++) bits |= (rounded<T>(y[k]) > 0 ? 1u : 0u) << k;
  return static_cast<uint8_t>(bits);
}

// Sets this thread's channel to 0 in its rows, if it is one of the additional channels.
template <class T>
__device__ __forceinline__ void apply_zeros(const ApplyArguments<T>& a, int64_t channel) {
  if (channel >= a.groups + a.zeros) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    store<1>({0.0f}, a.y.at(row, channel));
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) apply_kernel(const ApplyArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) {
    if (N == 1) apply_zeros(a, channel);
    return;
  }
  const Affine<N> affine = load_affine<N>(a, channel);
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    float x[N], skip[N] = {};
    load<N>(a.x.at(row, channel), x);
    if (a.skip.data != nullptr) load<N>(a.skip.at(row, channel), skip);
    normalize(affine, x);
    if (a.skip.data != nullptr) {
#pragma unroll
      for (int k = 0; k < N; k++) x[k] += skip[k];
    }
    if (a.relu) {
#pragma unroll
      for (int k = 0; k < N; k++) x[k] = x[k] > 0 ? x[k] : 0.0f;
    }
    store<N>(x, a.y.at(row, channel));
    if (N == kWide<T> && a.passed != nullptr) a.passed[row * a.groups + group] = bits_above_zero<T>(x);
  }
}

FinishStatistics finish_of(const BatchNormStatistics& s, const Chunks& chunks) {
  return {.partials = partials_in<2>(s.workspace, s.counters, chunks, s.channels),
          .rows = s.rows,
          .rows_each = chunks.rows_each,
          .rows_of_chunk = static_cast<float>(chunks.rows_each),
          .rows_of_last = static_cast<float>(s.rows - (chunks.count - 1) * chunks.rows_each),
          .epsilon = static_cast<float>(s.epsilon),
          .keep = static_cast<float>(s.momentum),
          .take = static_cast<float>(1 - s.momentum),
          .mean = s.mean,
          .inv_std = s.inv_std,
          .moving_mean = s.moving_mean,
          .moving_var = s.moving_var};
}

}  // namespace

int64_t batch_norm_workspace_bytes(Type type, int64_t rows, int64_t channels) {
  return partials_bytes(type, rows, channels, 2) + 2 * channels * int64_t{sizeof(float)};
}

int64_t batch_norm_counters(int64_t channels) {
  return counters_of(channels);
}

void batch_norm_statistics(const BatchNormStatistics& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  const Width width = Width(s.type, s.channels).rows(s.x);
  const Chunks chunks = chunks_of(s.rows, width.groups());
  const Launch what{.name = "batch_norm_statistics",
                    .grid = chunks.grid,
                    .block = chunks.block,
                    .bytes = s.rows * s.channels * bytes_of(s.type) + bytes_of_partials(chunks.count, 2, s.channels) +
                             6 * s.channels * int64_t{sizeof(float)},
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, statistics_kernel<T, N>, rows_of<T>(s.x, s.channels), width.groups(), finish_of(s, chunks));
  });
}

void batch_norm_inverse(const BatchNormInverse& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.channels > 0, "the input is empty");
  const auto blocks = static_cast<uint32_t>((s.channels + kBlockThreads - 1) / kBlockThreads);
  launch({.name = "batch_norm_inverse",
          .grid = {blocks},
          .block = {kBlockThreads},
          .bytes = 2 * s.channels * int64_t{sizeof(float)},
          .stream = stream},
         inverse_kernel, s.variance, static_cast<float>(s.epsilon), s.inv_std, s.channels);
}

void batch_norm_apply(const BatchNormApply& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  DT_KERNEL_CHECK((s.inv_std == nullptr) != (s.variance == nullptr),
                  "exactly one of inv_std and variance must be given");
  const Width width = Width(s.type, s.channels).rows(s.x).rows(s.skip).rows(s.y);
  DT_KERNEL_CHECK(s.passed == nullptr || width.wide(), "the bits need rows that are moved 16 bytes at a time");
  DT_KERNEL_CHECK(s.zeros == 0 || !width.wide(), "rows that are moved 16 bytes at a time cannot have zeros");
  const auto [grid, block] = row_grid(s.rows, width.groups() + s.zeros);
  const int64_t maps = s.skip.data == nullptr ? 2 : 3;
  const int64_t bits = s.passed == nullptr ? 0 : passed_bytes(s.type, s.rows, s.channels);
  const Launch what{.name = "batch_norm_apply",
                    .grid = grid,
                    .block = block,
                    .bytes = s.rows * (maps * s.channels + s.zeros) * bytes_of(s.type) + bits,
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, apply_kernel<T, N>,
           ApplyArguments<T>{.rows = s.rows,
                             .groups = width.groups(),
                             .zeros = s.zeros,
                             .x = rows_of<T>(s.x, s.channels),
                             .skip = rows_of<T>(s.skip, s.channels),
                             .mean = s.mean,
                             .inv_std = s.inv_std,
                             .variance = s.variance,
                             .gamma = s.gamma,
                             .beta = s.beta,
                             .epsilon = static_cast<float>(s.epsilon),
                             .relu = s.relu,
                             .y = rows_of<T>(s.y, s.channels),
                             .passed = s.passed});
  });
}

}  // namespace dtrain::cuda
