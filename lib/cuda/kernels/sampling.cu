#include "cuda/kernels/sampling.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

constexpr int kNumbers = 6;  // number of parameters of a transformation
constexpr int kThreads = 128;

// Must be equal to Place in exec/sampling.h, with the operations in the same order.
struct Place {
  int64_t cell;
  float beyond;
};
__device__ __forceinline__ float grid_coordinate(int64_t i, int64_t size) {
  return 2.0f * static_cast<float>(i) / static_cast<float>(size - 1) - 1;
}
__device__ __forceinline__ Place sampled_place(const float* t, float a, float b, int64_t cells) {
  constexpr float kFar = 1 << 20;
  const float position = (t[0] * a + t[1] * b + t[2] + 1) * static_cast<float>(cells - 1) / 2;
  if (!(fabsf(position) < kFar)) return {-2, 0};
  const auto cell = static_cast<int64_t>(floorf(position));
  return {cell, position - static_cast<float>(cell)};
}

// The four cells around a sampled position, in the order of the sums: upper left, upper right, lower left, lower right.
// `row` is the cell's row of the tensor, or negative outside the map.
struct Corners {
  int64_t row[4];
  float weight[4], by_row[4], by_column[4];
};
template <class T>
__device__ Corners corners_of(const SamplingShape& s, const T* transformation, int64_t image, int64_t output) {
  float t[kNumbers];
  for (int i = 0; i < kNumbers; i++) t[i] = to_float(transformation[i]);
  const float a = grid_coordinate(output % s.q, s.q), b = grid_coordinate(output / s.q, s.p);
  const Place row = sampled_place(t + 3, a, b, s.h), column = sampled_place(t, a, b, s.w);
  Corners corners;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const bool down = i / 2 == 1, right = i % 2 == 1;
    const int64_t y = row.cell + (down ? 1 : 0), x = column.cell + (right ? 1 : 0);
    const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
    corners.row[i] = inside ? (image * s.h + y) * s.w + x : -1;
    const float by_height = down ? row.beyond : 1 - row.beyond, by_width = right ? column.beyond : 1 - column.beyond;
    corners.weight[i] = by_height * by_width;
    corners.by_row[i] = down ? by_width : -by_width;
    corners.by_column[i] = right ? by_height : -by_height;
  }
  return corners;
}

template <class T>
struct SampleArguments {
  SamplingShape shape;
  Rows<T> x, t;
  RowsOut<T> y;
};

// Each thread computes one channel of one output pixel.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) sample_kernel(const SampleArguments<T> a) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, outputs = a.shape.p * a.shape.q;
  if (channel >= a.shape.channels) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.shape.n * outputs;
       row += gridDim.y * blockDim.y) {
    const int64_t image = row / outputs;
    const Corners corners = corners_of(a.shape, a.t.at(image, 0), image, row % outputs);
    float sum = 0;
    for (int i = 0; i < 4; i++) {
      if (corners.row[i] >= 0) sum += corners.weight[i] * to_float(*a.x.at(corners.row[i], channel));
    }
    *a.y.at(row, channel) = from_float<T>(sum);
  }
}

template <class T>
struct BackwardArguments {
  SamplingShape shape;
  Rows<T> x, t, dy;
  RowsOut<T> dt;
  float* dx;
};

// Each block computes the gradient of one image's transformation. Each thread sums over some of the outputs, then the
// threads' sums are added in order.
template <class T>
__global__ void __launch_bounds__(kThreads) transformation_kernel(const BackwardArguments<T> a) {
  __shared__ float parts[kNumbers][kThreads];
  const SamplingShape& s = a.shape;
  for (int64_t image = blockIdx.x; image < s.n; image += gridDim.x) {
    float sums[kNumbers] = {};
    for (int64_t output = threadIdx.x; output < s.p * s.q; output += kThreads) {
      const Corners corners = corners_of(s, a.t.at(image, 0), image, output);
      float by_row = 0, by_column = 0;
      for (int64_t c = 0; c < s.channels; c++) {
        const float d = to_float(*a.dy.at(image * s.p * s.q + output, c));
        for (int i = 0; i < 4; i++) {
          if (corners.row[i] < 0) continue;
          const float x = to_float(*a.x.at(corners.row[i], c));
          by_row += d * corners.by_row[i] * x;
          by_column += d * corners.by_column[i] * x;
        }
      }
      const float u = grid_coordinate(output % s.q, s.q), v = grid_coordinate(output / s.q, s.p);
      by_column *= static_cast<float>(s.w - 1) / 2;
      by_row *= static_cast<float>(s.h - 1) / 2;
      sums[0] += by_column * u, sums[1] += by_column * v, sums[2] += by_column;
      sums[3] += by_row * u, sums[4] += by_row * v, sums[5] += by_row;
    }
    for (int i = 0; i < kNumbers; i++) parts[i][threadIdx.x] = sums[i];
    __syncthreads();
    if (threadIdx.x < kNumbers) {
      float sum = 0;
      for (int thread = 0; thread < kThreads; thread++) sum += parts[threadIdx.x][thread];
      *a.dt.at(image, threadIdx.x) = from_float<T>(sum);
    }
    __syncthreads();
  }
}

// Each thread computes one channel of one whole image, because several positions add to the same cell. Networks usually
// sample their input images, whose gradient is not needed, so this kernel hardly ever runs.
template <class T>
__global__ void __launch_bounds__(kThreads) map_kernel(const BackwardArguments<T> a) {
  const SamplingShape& s = a.shape;
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread >= s.n * s.channels) return;
  const int64_t image = thread / s.channels, channel = thread % s.channels;
  for (int64_t cell = 0; cell < s.h * s.w; cell++) a.dx[(image * s.h * s.w + cell) * s.channels + channel] = 0;
  for (int64_t output = 0; output < s.p * s.q; output++) {
    const Corners corners = corners_of(s, a.t.at(image, 0), image, output);
    const float d = to_float(*a.dy.at(image * s.p * s.q + output, channel));
    for (int i = 0; i < 4; i++) {
      if (corners.row[i] >= 0) a.dx[corners.row[i] * s.channels + channel] += d * corners.weight[i];
    }
  }
}

void check(const SamplingShape& s) {
  DT_KERNEL_CHECK(s.n > 0 && s.channels > 0 && s.h > 0 && s.w > 0, "the input is empty");
  DT_KERNEL_CHECK(s.p > 1 && s.q > 1, "the output must have at least 2 x 2 cells");
}

}  // namespace

void sample(const Sample& s, cudaStream_t stream) {
  check(s.shape);
  const SamplingShape& shape = s.shape;
  const auto [grid, block] = row_grid(shape.n * shape.p * shape.q, shape.channels);
  const Launch what{.name = "sample",
                    .grid = grid,
                    .block = block,
                    .bytes = shape.n * shape.channels * (shape.h * shape.w + shape.p * shape.q) * bytes_of(s.type),
                    .stream = stream};
  with_type(s.type, [&]<class T>() {
    launch(what, sample_kernel<T>,
           SampleArguments<T>{shape, rows_of<T>(s.x, shape.channels), rows_of<T>(s.t, kNumbers),
                              rows_of<T>(s.y, shape.channels)});
  });
}

void sample_backward(const SampleBackward& s, cudaStream_t stream) {
  check(s.shape);
  const SamplingShape& shape = s.shape;
  const int64_t bytes = shape.n * shape.channels * (shape.h * shape.w + shape.p * shape.q) * bytes_of(s.type);
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(shape.n, kGridBlocks * 16));
  const Launch by_numbers{
      .name = "sample_backward", .grid = {blocks}, .block = {kThreads}, .bytes = bytes, .stream = stream};
  const auto map_blocks = static_cast<uint32_t>(divide_up(shape.n * shape.channels, kThreads));
  const Launch by_map{.name = "sample_backward_map",
                      .grid = {map_blocks},
                      .block = {kThreads},
                      .bytes = 4 * shape.n * shape.h * shape.w * shape.channels,
                      .stream = stream};
  with_type(s.type, [&]<class T>() {
    const BackwardArguments<T> a{shape,
                                 rows_of<T>(s.x, shape.channels),
                                 rows_of<T>(s.t, kNumbers),
                                 rows_of<T>(s.dy, shape.channels),
                                 rows_of<T>(s.dt, kNumbers),
                                 s.dx};
    launch(by_numbers, transformation_kernel<T>, a);
    if (s.dx != nullptr) launch(by_map, map_kernel<T>, a);
  });
}

}  // namespace dtrain::cuda
