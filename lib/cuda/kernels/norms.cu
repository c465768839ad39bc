#include "cuda/kernels/norms.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

constexpr int kLanes = optim::kNormLanes;

// Sums the squares of a chunk's weights and of its gradients. Runs with one block for each chunk, and one thread for
// each of the partial sums that the host computes. The square of a float is exact in float64, so contracting it with
// the addition does not change the result.
__global__ void __launch_bounds__(kLanes) squares_kernel(const NormRates a) {
  __shared__ double weights[kLanes], gradients[kLanes];
  const StepScalars& step = a.step.chosen();
  if (!step.applies) return;
  const Chunk chunk = a.table.chunks[blockIdx.x];
  const UpdateTensor t = a.table.tensors[chunk.tensor];
  const int64_t begin = chunk.index * int64_t{optim::kNormBlock};
  const int64_t end = begin + int64_t{optim::kNormBlock} < t.count ? begin + int64_t{optim::kNormBlock} : t.count;
  const float scale = static_cast<float>(step.gradient_scale);
  double of_weights = 0, of_gradients = 0;
#pragma unroll 8
  for (int64_t at = begin + threadIdx.x; at < end; at += kLanes) {
    float g[1] = {};
    load_as<1>(t.gradient_type, t.gradient, at, g);
    if (a.accumulated > 0) g[0] = t.state[1][at] + scale * g[0];
    of_weights += static_cast<double>(t.weight[at]) * t.weight[at];
    of_gradients += static_cast<double>(g[0]) * g[0];
  }
  weights[threadIdx.x] = of_weights;
  gradients[threadIdx.x] = of_gradients;
  for (unsigned half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      weights[threadIdx.x] += weights[threadIdx.x + half];
      gradients[threadIdx.x] += gradients[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) {
    a.squares[2 * blockIdx.x] = weights[0];
    a.squares[2 * blockIdx.x + 1] = gradients[0];
  }
}

// One thread for each tensor adds the sums of the tensor's chunks in order. A large array has a few hundred chunks.
__global__ void __launch_bounds__(kLanes) rates_kernel(const NormRates a) {
  const int64_t tensor = int64_t{blockIdx.x} * kLanes + threadIdx.x;
  const StepScalars& step = a.step.chosen();
  if (tensor >= a.tensors || !step.applies) return;
  const UpdateTensor t = a.table.tensors[tensor];
  double weights = 0, gradients = 0;
  for (int64_t chunk = a.first_chunk[tensor]; chunk < a.first_chunk[tensor + 1]; chunk++) {
    weights += a.squares[2 * chunk];
    gradients += a.squares[2 * chunk + 1];
  }
  const double scale = step.gradient_scale;
  const double divisor = a.accumulated == 0 ? 1 : static_cast<double>(a.accumulated) * scale;
  const optim::Norms norms{sqrt(weights), sqrt(gradients) / divisor};
  double rate = 1;
  if (t.adapts) {
    rate = a.rule == NormRates::Rule::kLars ? optim::lars_rate(a.parameters, norms, scale, t.weight_decay)
                                            : optim::lbsgd_rate(a.parameters, norms, scale, t.weight_decay);
  }
  a.rates[tensor] = rate;
}

}  // namespace

void find_norm_rates(const NormRates& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.tensors > 0 && s.table.chunk_count > 0 && s.step.scalars != nullptr,
                  "there are no arrays whose norms to compute");
  launch({.name = "norm_squares",
          .grid = {static_cast<uint32_t>(s.table.chunk_count)},
          .block = {kLanes},
          .bytes = s.table.bytes,
          .stream = stream},
         squares_kernel, s);
  launch({.name = "norm_rates",
          .grid = {static_cast<uint32_t>(divide_up(s.tensors, kLanes))},
          .block = {kLanes},
          .bytes = 16 * s.table.chunk_count + 8 * s.tensors,
          .stream = stream},
         rates_kernel, s);
}

}  // namespace dtrain::cuda
