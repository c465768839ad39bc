#include "cuda/kernels/dropout.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// These two functions must give the same results as mix64 in base/random.h and is_dropped in exec/dropout.h.
__device__ __forceinline__ uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
__device__ __forceinline__ bool is_dropped(uint64_t key, uint64_t element, uint32_t threshold) {
  return static_cast<uint32_t>(mixed(key + 0x9e3779b97f4a7c15 * element) >> 32) < threshold;
}

template <class T>
struct KeepArguments {
  int64_t rows, groups, positions;
  uint64_t node;
  uint32_t threshold;
  float factor;
  const uint64_t* keys;
  Rows<T> x;
  RowsOut<T> y;
};

// `element`, from which an element's random number is computed, is the position in the order [c, h, w], whatever the
// layout.
template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) keep_kernel(const KeepArguments<T> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.y * blockDim.y) {
    const uint64_t key = mixed(a.keys[row / a.positions] ^ a.node);
    float x[N];
    load<N>(a.x.at(row, channel), x);
#pragma unroll
    for (int k = 0; k < N; k++) {
      const int64_t element = (channel + k) * a.positions + row % a.positions;
      x[k] = is_dropped(key, static_cast<uint64_t>(element), a.threshold) ? 0.0f : x[k] * a.factor;
    }
    store<N>(x, a.y.at(row, channel));
  }
}

}  // namespace

void keep_elements(const KeepElements& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.channels > 0 && s.positions > 0, "the input is empty");
  const Width width = Width(s.type, s.channels).rows(s.x).rows(s.y);
  const auto [grid, block] = row_grid(s.rows, width.groups());
  const Launch what{.name = "keep_elements",
                    .grid = grid,
                    .block = block,
                    .bytes = 2 * s.rows * s.channels * bytes_of(s.type),
                    .stream = stream};
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, keep_kernel<T, N>,
           KeepArguments<T>{s.rows, width.groups(), s.positions, s.node, s.threshold, s.factor, s.keys,
                            rows_of<T>(s.x, s.channels), rows_of<T>(s.y, s.channels)});
  });
}

}  // namespace dtrain::cuda
