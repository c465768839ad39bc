#include "cuda/kernels/update.h"

#include <cfloat>

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// Four elements per thread are 16 bytes of float32, the type of most data that an update moves.
constexpr int kTogether = 4;

template <int N>
__device__ __forceinline__ void load_as(Type type, const void* from, int64_t at, float (&x)[N]) {
  switch (type) {
    case Type::kFloat32: return load<N>(static_cast<const float*>(from) + at, x);
    case Type::kFloat16: return load<N>(static_cast<const __half*>(from) + at, x);
    case Type::kBfloat16: return load<N>(static_cast<const __nv_bfloat16*>(from) + at, x);
  }
}
template <int N>
__device__ __forceinline__ void store_as(Type type, const float (&x)[N], void* to, int64_t at) {
  switch (type) {
    case Type::kFloat32: return store<N>(x, static_cast<float*>(to) + at);
    case Type::kFloat16: return store<N>(x, static_cast<__half*>(to) + at);
    case Type::kBfloat16: return store<N>(x, static_cast<__nv_bfloat16*>(to) + at);
  }
}

__device__ __forceinline__ bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Visits a chunk's elements: if `wide`, calls visit.operator()<4>(at) for each four elements from `at` on, and
// visit.operator()<1>(at) for the remaining ones.
template <class Visit>
__device__ __forceinline__ void for_each_of(const Chunk& chunk, int64_t count, bool wide, Visit&& visit) {
  const int64_t begin = chunk.index * kChunkElements;
  const int64_t end = begin + kChunkElements < count ? begin + kChunkElements : count;
  const int64_t wide_end = wide ? begin + (end - begin) / kTogether * kTogether : begin;
  for (int64_t at = begin + threadIdx.x * kTogether; at < wide_end; at += kBlockThreads * kTogether) {
    visit.template operator()<kTogether>(at);
  }
  for (int64_t at = wide_end + threadIdx.x; at < end; at += kBlockThreads) visit.template operator()<1>(at);
}

struct UpdateArguments {
  const UpdateTensor* tensors;
  const Chunk* chunks;
  float momentum, clip;
  Rule rule;
  bool has_momentum, clips;
  const StepScalars* step;
  const LossScale* loss_scale;
};

// The scalars of the formulas for one tensor, each rounded to float32 once, at the same place as in optim::update.
struct Scalars {
  float learning_rate, weight_decay, gradient_scale, inverse;
};

// A NaN stays NaN, because both comparisons are false.
__device__ __forceinline__ float cut(float g, float clip) {
  return g > clip ? clip : (g < -clip ? -clip : g);
}

template <int N>
__device__ __forceinline__ void update_elements(const UpdateArguments& a, const UpdateTensor& t, const Scalars& s,
                                                int64_t at) {
  float w[N], g[N] = {}, v[N] = {};
  load<N>(t.weight + at, w);
  load_as<N>(t.gradient_type, t.gradient, at, g);
  if (a.has_momentum) load<N>(t.momentum + at, v);
  const float keep = 1 - s.learning_rate * s.weight_decay;
#pragma unroll
  for (int k = 0; k < N; k++) {
    g[k] = s.gradient_scale * (g[k] * s.inverse);
    if (a.clips) g[k] = cut(g[k], a.clip);
    if (a.has_momentum && a.rule == Rule::kNag) {
      const float kept = a.momentum * v[k];
      w[k] = w[k] - kept + (a.momentum + 1) * (kept - s.learning_rate * (g[k] + s.weight_decay * w[k]));
      v[k] = kept - s.learning_rate * (g[k] + s.weight_decay * w[k]);
    } else if (a.has_momentum && a.rule == Rule::kOldNag) {
      const float h = g[k] + s.weight_decay * w[k];
      v[k] = a.momentum * v[k] + h;
      w[k] -= s.learning_rate * (h + a.momentum * v[k]);
    } else if (a.has_momentum) {
      v[k] = a.momentum * v[k] - s.learning_rate * (g[k] + s.weight_decay * w[k]);
      w[k] += v[k];
    } else {
      w[k] = keep * w[k] - s.learning_rate * g[k];
    }
  }
  store<N>(w, t.weight + at);
  if (a.has_momentum) store<N>(v, t.momentum + at);
  if (t.copy != nullptr) store_as<N>(t.copy_type, w, t.copy, at);
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) update_kernel(const UpdateArguments a) {
  if (a.loss_scale != nullptr && a.loss_scale->nonfinite != 0) return;
  const Chunk chunk = a.chunks[blockIdx.x];
  const UpdateTensor t = a.tensors[chunk.tensor];
  const Scalars s{.learning_rate = static_cast<float>(a.step->learning_rate * t.learning_rate),
                  .weight_decay = t.weight_decay,
                  .gradient_scale = a.step->gradient_scale,
                  .inverse = a.loss_scale == nullptr ? 1.0f : a.loss_scale->inverse};
  const bool wide = aligned(t.weight) && aligned(t.momentum) && aligned(t.gradient) && aligned(t.copy);
  for_each_of(chunk, t.count, wide, [&]<int N>(int64_t at) { update_elements<N>(a, t, s, at); });
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    find_nonfinite_kernel(const UpdateTensor* tensors, const Chunk* chunks, LossScale* loss_scale) {
  const Chunk chunk = chunks[blockIdx.x];
  const UpdateTensor t = tensors[chunk.tensor];
  bool finite = true;
  for_each_of(chunk, t.count, aligned(t.gradient), [&]<int N>(int64_t at) {
    float g[N] = {};
    load_as<N>(t.gradient_type, t.gradient, at, g);
#pragma unroll
    for (int k = 0; k < N; k++) finite = finite && fabsf(g[k]) <= FLT_MAX;
  });
  // Several threads may write this, but all write the same value.
  if (!finite) loss_scale->nonfinite = 1;
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) restore_kernel(const Restore a) {
  if (a.loss_scale->nonfinite == 0) return;
  const int64_t step = int64_t{gridDim.x} * kBlockThreads;
  for (int64_t at = int64_t{blockIdx.x} * kBlockThreads + threadIdx.x; at < a.count; at += step) {
    a.values[at] = a.kept[at];
  }
}

__global__ void adjust_loss_scale_kernel(const LossScaleRule rule, LossScale* loss_scale) {
  LossScale s = *loss_scale;
  if (s.nonfinite != 0) s.skipped++;
  if (!rule.dynamic) {
    s.good_steps = 0;
  } else if (s.nonfinite != 0) {
    s.scale = fmaxf(s.scale / 2, 1.0f);
    s.good_steps = 0;
  } else if (++s.good_steps >= rule.growth_steps) {
    s.scale = fminf(s.scale * 2, rule.scale_max);
    s.good_steps = 0;
  }
  s.inverse = 1 / s.scale;
  s.nonfinite = 0;
  *loss_scale = s;
}

Launch launch_of(const char* name, const Table<UpdateTensor>& table, cudaStream_t stream) {
  DT_KERNEL_CHECK(table.chunk_count > 0, "a table of nothing");
  return {.name = name,
          .grid = {static_cast<uint32_t>(table.chunk_count)},
          .block = {kBlockThreads},
          .bytes = table.bytes,
          .stream = stream};
}

}  // namespace

void update(const Update& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.step != nullptr, "no step to take");
  launch(launch_of("update", s.table, stream), update_kernel,
         UpdateArguments{.tensors = s.table.tensors,
                         .chunks = s.table.chunks,
                         .momentum = static_cast<float>(s.momentum),
                         .clip = static_cast<float>(s.clip),
                         .rule = s.rule,
                         .has_momentum = s.momentum != 0,
                         .clips = s.clip > 0,
                         .step = s.step,
                         .loss_scale = s.loss_scale});
}

void find_nonfinite(const Table<UpdateTensor>& table, LossScale* loss_scale, cudaStream_t stream) {
  launch(launch_of("find_nonfinite", table, stream), find_nonfinite_kernel, table.tensors, table.chunks, loss_scale);
}

void restore_if_nonfinite(const Restore& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.count > 0 && s.loss_scale != nullptr, "nothing to restore");
  const Grid grid = flat_grid(s.count);
  launch({.name = "restore_if_nonfinite",
          .grid = grid.grid,
          .block = grid.block,
          .bytes = 2 * s.count * int64_t{sizeof(float)},
          .stream = stream},
         restore_kernel, s);
}

void adjust_loss_scale(const LossScaleRule& rule, LossScale* loss_scale, cudaStream_t stream) {
  launch(
      {.name = "adjust_loss_scale", .grid = {}, .block = {}, .bytes = 2 * int64_t{sizeof(LossScale)}, .stream = stream},
      adjust_loss_scale_kernel, rule, loss_scale);
}

}  // namespace dtrain::cuda
