// The backward pass of batch normalization: two sums in each channel, then the gradient of the input. The forward pass
// is batch_norm.cu.
#include <limits>

#include "cuda/kernels/batch_norm.cuh"
#include "cuda/kernels/batch_norm.h"
#include "cuda/kernels/reduction.cuh"

namespace dtrain::cuda {

namespace {

// How the kernel determines where the ReLU passes the gradient.
enum class Mask { kNone, kByOutput, kByInput, kByBits };

template <class T>
struct BackwardArguments {
  int64_t rows, groups, rows_each;
  Mask mask;
  Rows<T> x, y, dy, add;
  const uint8_t* passed;
  const float *mean, *inv_std, *gamma, *beta;
  RowsOut<T> dskip, dx;
  const float* sums;  // see FinishBackward
};

// The partial results of a chunk are sum dz and sum dz (x - mean).
struct FinishBackward {
  Partials<2> partials;
  float rows;  // divisor of the sums; infinite if dx does not depend on the sums
  const float* inv_std;
  bool fixed_gamma;
  float *dgamma, *dbeta;
  float* sums;  // [sum dz / m, sum dz xhat / m][channel]

  [[nodiscard]] __device__ __forceinline__ auto terms(int64_t channel) const {
    return [this, channel](int64_t chunk) { return partials.of_chunk(chunk, channel); };
  }
  __device__ __forceinline__ void result(int64_t channel, const Sums<2>& sum) const {
    const float sum_normal = sum.of[1] * inv_std[channel];
    dbeta[channel] = sum.of[0];
    dgamma[channel] = fixed_gamma ? 0.0f : sum_normal;
    sums[channel] = sum.of[0] / rows;
    sums[partials.channels + channel] = sum_normal / rows;
  }
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
  if (a.mask == Mask::kByBits) {
    const int64_t element = row * a.groups * N + channel;
    const unsigned bits = a.passed[element / kWide<T>] >> (element % kWide<T>);
#pragma unroll
    for (int k = 0; k < N; k++) d[k] = (bits >> k & 1) != 0 ? d[k] : 0.0f;
    return;
  }
  float y[N];
  if (a.mask == Mask::kByOutput) {
    load<N>(a.y.at(row, channel), y);
  } else {
#pragma unroll
    for (int k = 0; k < N; k++) y[k] = x[k];
    normalize(affine, y);
  }
#pragma unroll
  for (int k = 0; k < N; k++) d[k] = rounded<T>(y[k]) > 0 ? d[k] : 0.0f;
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kReductionBlocksMin<N>)
    backward_sums_kernel(const BackwardArguments<T> a, const FinishBackward finish) {
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
  if (threadIdx.y == 0 && mine.active) {
#pragma unroll
    for (int k = 0; k < N; k++) {
      sum[k] = memory[0][k][thread];
      product[k] = memory[1][k][thread];
    }
    finish.partials.write(blockIdx.y, 0, mine.channel, sum);
    finish.partials.write(blockIdx.y, 1, mine.channel, product);
  }
  finish_tile<N>(finish);
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

// Where the sums are stored: after the partial results, at an offset that does not depend on how many partial results
// are used.
float* sums_of(void* workspace, Type type, int64_t rows, int64_t channels) {
  return static_cast<float*>(workspace) + partials_bytes(type, rows, channels, 2) / int64_t{sizeof(float)};
}

Width width_of(const BatchNormBackward& s) {
  return Width(s.type, s.channels).rows(s.x).rows(s.y).rows(s.dy).rows(s.add).rows(s.dskip).rows(s.dx);
}

Mask mask_of(const BatchNormBackward& s) {
  if (!s.relu) return Mask::kNone;
  if (s.passed != nullptr) return Mask::kByBits;
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
          .passed = s.passed,
          .mean = s.mean,
          .inv_std = s.inv_std,
          .gamma = s.gamma,
          .beta = s.beta,
          .dskip = rows_of<T>(s.dskip, s.channels),
          .dx = rows_of<T>(s.dx, s.channels),
          .sums = sums_of(s.workspace, s.type, s.rows, s.channels)};
}

// The number of bytes that a pass reads only to determine the mask.
int64_t mask_bytes(const BatchNormBackward& s) {
  switch (mask_of(s)) {
    case Mask::kByOutput: return s.rows * s.channels * bytes_of(s.type);
    case Mask::kByBits: return passed_bytes(s.type, s.rows, s.channels);
    case Mask::kNone:
    case Mask::kByInput: return 0;
  }
  return 0;
}

// The arguments of the second pass. If the first pass wrote dskip, the second pass reads it instead of dy and needs no
// mask, because dskip is already masked.
template <class T>
BackwardArguments<T> second_pass(const BatchNormBackward& s, BackwardArguments<T> a) {
  if (s.dskip.data == nullptr) return a;
  a.dy = {a.dskip.data, a.dskip.pitch};
  a.mask = Mask::kNone;
  return a;
}

FinishBackward finish_of(const BatchNormBackward& s, const Chunks& chunks) {
  return {.partials = partials_in<2>(s.workspace, s.counters, chunks, s.channels),
          .rows = s.global ? std::numeric_limits<float>::infinity() : static_cast<float>(s.rows),
          .inv_std = s.inv_std,
          .fixed_gamma = s.gamma == nullptr,
          .dgamma = s.dgamma,
          .dbeta = s.dbeta,
          .sums = sums_of(s.workspace, s.type, s.rows, s.channels)};
}

void backward_sums(const BatchNormBackward& s, const Width& width, const Chunks& chunks, cudaStream_t stream) {
  const int64_t maps = 2 + (s.dskip.data != nullptr ? 1 : 0);
  const Launch what{.name = "batch_norm_backward_sums",
                    .grid = chunks.grid,
                    .block = chunks.block,
                    .bytes = maps * s.rows * s.channels * bytes_of(s.type) + mask_bytes(s) +
                             bytes_of_partials(chunks.count, 2, s.channels) + 5 * s.channels * int64_t{sizeof(float)},
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, backward_sums_kernel<T, N>, arguments_of<T>(s, width, chunks), finish_of(s, chunks));
  });
}

void backward_apply(const BatchNormBackward& s, const Width& width, const Chunks& chunks, cudaStream_t stream) {
  const int64_t maps = 3 + (s.add.data != nullptr ? 1 : 0);
  const auto [grid, block] = row_grid(s.rows, width.groups());
  const Launch what{
      .name = "batch_norm_backward_apply",
      .grid = grid,
      .block = block,
      .bytes = maps * s.rows * s.channels * bytes_of(s.type) + (s.dskip.data == nullptr ? mask_bytes(s) : 0),
      .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, backward_apply_kernel<T, N>, second_pass(s, arguments_of<T>(s, width, chunks)));
  });
}

}  // namespace

void batch_norm_backward(const BatchNormBackward& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0, "the input is empty");
  DT_KERNEL_CHECK(s.dskip.data == nullptr || s.relu,
                  "without a ReLU, the gradient of the skip is dy itself, so it is not computed");
  const Width width = width_of(s);
  const Chunks chunks = chunks_of(s.rows, width.groups());
  backward_sums(s, width, chunks, stream);
  if (s.dx.data != nullptr) backward_apply(s, width, chunks, stream);
}

}  // namespace dtrain::cuda
