#include "cuda/kernels/softmax.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// One block handles one row. Rows are the images of a batch; they are too few and too short (10 to a few thousand
// classes) to need more.
constexpr int kThreads = 128, kLanes = 32, kWarps = kThreads / kLanes;
constexpr unsigned kAllLanes = 0xffffffff;

// Combines x over all threads of the block, always in the same order. All threads get the result. `memory` is shared
// memory; it may be reused after the call.
template <class Combine>
__device__ float over_block(float x, float (&memory)[kWarps], Combine&& combine) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x = combine(x, __shfl_xor_sync(kAllLanes, x, distance));
  if (threadIdx.x % kLanes == 0) memory[threadIdx.x / kLanes] = x;
  __syncthreads();
  x = memory[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; warp++) x = combine(x, memory[warp]);
  __syncthreads();
  return x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(const T* x, float* p, int64_t rows, int64_t classes) {
  __shared__ float memory[kWarps];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * classes;
    float* to = p + row * classes;
    float largest = to_float(from[0]);
    for (int64_t k = threadIdx.x; k < classes; k += kThreads) largest = fmaxf(largest, to_float(from[k]));
    largest = over_block(largest, memory, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0;
    for (int64_t k = threadIdx.x; k < classes; k += kThreads) sum += to[k] = expf(to_float(from[k]) - largest);
    sum = over_block(sum, memory, [](float a, float b) { return a + b; });
    for (int64_t k = threadIdx.x; k < classes; k += kThreads) to[k] /= sum;
  }
}

struct BackwardArguments {
  int64_t rows, classes, label_stride;
  float right, wrong;  // targets of the label's class and of the other classes
  float factor;
  const float *p, *labels, *loss_scale;
};

template <class T>
__global__ void __launch_bounds__(kThreads) backward_kernel(const BackwardArguments a, T* dx) {
  const float scale = a.loss_scale == nullptr ? a.factor : a.factor * *a.loss_scale;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const auto label = static_cast<int64_t>(a.labels[row * a.label_stride]);
    for (int64_t k = threadIdx.x; k < a.classes; k += kThreads) {
      const float d = a.p[row * a.classes + k] - (k == label ? a.right : a.wrong);
      dx[row * a.classes + k] = from_float<T>(d * scale);
    }
  }
}

Grid row_a_block(int64_t rows) {
  return {{static_cast<uint32_t>(std::min<int64_t>(rows, kGridBlocks * 16))}, {kThreads}};
}

}  // namespace

void softmax(const Softmax& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.classes > 0, "the input is empty");
  const auto [grid, block] = row_a_block(s.rows);
  const Launch what{.name = "softmax",
                    .grid = grid,
                    .block = block,
                    .bytes = s.rows * s.classes * (bytes_of(s.type) + 4),
                    .stream = stream};
  with_type(s.type,
            [&]<class T>() { launch(what, softmax_kernel<T>, static_cast<const T*>(s.x), s.p, s.rows, s.classes); });
}

void softmax_backward(const SoftmaxBackward& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.rows > 0 && s.classes > 0, "the input is empty");
  const auto [grid, block] = row_a_block(s.rows);
  const Launch what{.name = "softmax_backward",
                    .grid = grid,
                    .block = block,
                    .bytes = s.rows * s.classes * (4 + bytes_of(s.type)) + 4 * s.rows,
                    .stream = stream};
  const auto alpha = static_cast<float>(s.smooth_alpha);
  const BackwardArguments a{.rows = s.rows,
                            .classes = s.classes,
                            .label_stride = s.label_stride,
                            .right = 1 - alpha,
                            .wrong = s.classes > 1 ? alpha / static_cast<float>(s.classes - 1) : 0.0f,
                            .factor = s.factor,
                            .p = s.p,
                            .labels = s.labels,
                            .loss_scale = s.loss_scale};
  with_type(s.type, [&]<class T>() { launch(what, backward_kernel<T>, a, static_cast<T*>(s.dx)); });
}

}  // namespace dtrain::cuda
