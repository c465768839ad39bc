#include "cuda/kernels/update.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// The number of elements that a thread processes together: 16 bytes of float32, the type of most data that an update
// moves.
constexpr int kTogether = 4;

__device__ __forceinline__ bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Visits a chunk's elements. If `wide`, calls visit.operator()<4>(at) for every four elements beginning at `at`, and
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
  optim::Scalars scalars;
  StepChoice step;
  const float* nonfinite;
  double momentum;
  const double* norm_rates;
};

template <Rule rule>
constexpr bool kTakesMomentum =
    rule == Rule::kSgd || rule == Rule::kNag || rule == Rule::kOldNag || rule == Rule::kSignum;

template <Rule rule>
constexpr bool kHasState = rule != Rule::kSgld;

// The number of slots of a rule, at least 1; the slot is unused if the rule has none. Rules with momentum do not use
// their slot if the momentum is 0.
template <Rule rule>
constexpr int kSlots = kTakesMomentum<rule> || !kHasState<rule> || rule == Rule::kAdagrad || rule == Rule::kRmsprop ? 1
                       : rule == Rule::kOldRmsprop || rule == Rule::kCenteredRmsprop                                ? 3
                                                                                                                    : 2;

// The step of a rule with momentum. g is already scaled and clipped.
template <Rule rule>
__device__ __forceinline__ void step_with_momentum(const optim::Scalars& s, float g, float& w, float& v) {
  if constexpr (rule == Rule::kSgd) optim::formula::sgd(s, g, w, v);
  if constexpr (rule == Rule::kNag) optim::formula::nag(s, g, w, v);
  if constexpr (rule == Rule::kOldNag) optim::formula::nag_of_v07(s, g, w, v);
  if constexpr (rule == Rule::kSignum) optim::formula::signum(s, g, w, v);
}

// The step of element k, which is at `position` in its array. g is already scaled.
template <Rule rule, int N>
__device__ __forceinline__ void step(const optim::Scalars& s, float g, float& w, float (&v)[kSlots<rule>][N], int k,
                                     uint64_t position) {
  using namespace optim::formula;
  if constexpr (kTakesMomentum<rule>) {
    g = optim::cut(g, s.clip);
    if (s.momentum != 0) return step_with_momentum<rule>(s, g, w, v[0][k]);
    if constexpr (rule == Rule::kSignum) {
      signum_plain(s, g, w);
    } else {
      sgd_plain(s, g, w);
    }
  }
  if constexpr (rule == Rule::kSgld) sgld(s, g, w, position);
  if constexpr (rule == Rule::kDcasgd) dcasgd(s, g, w, v[0][k], v[1][k]);
  if constexpr (rule == Rule::kLbsgd) lbsgd(s, g, w, v[0][k], v[1][k]);
  if constexpr (rule == Rule::kAdam) adam(s, g, w, v[0][k], v[1][k]);
  if constexpr (rule == Rule::kOldAdam) adam_of_v07(s, g, w, v[0][k], v[1][k]);
  if constexpr (rule == Rule::kAdamax) adamax(s, g, w, v[0][k], v[1][k]);
  if constexpr (rule == Rule::kAdagrad) adagrad(s, g, w, v[0][k]);
  if constexpr (rule == Rule::kRmsprop) rmsprop(s, g, w, v[0][k]);
  if constexpr (rule == Rule::kCenteredRmsprop) centered_rmsprop(s, g, w, v[0][k], v[1][k], v[2][k]);
  if constexpr (rule == Rule::kOldRmsprop) rmsprop_of_v07(s, g, w, v[0][k], v[1][k], v[2][k]);
  if constexpr (rule == Rule::kAdadelta) adadelta(s, g, w, v[0][k], v[1][k]);
  if constexpr (rule == Rule::kFtrl) ftrl(s, g, w, v[0][k], v[1][k]);
}

// True if the tensor does not learn. The update must then be skipped: ftrl, for example, would divide by the rate 0.
template <Rule rule>
__device__ __forceinline__ bool is_frozen(const UpdateTensor& t, const optim::Scalars& s) {
  return !kTakesMomentum<rule> && rule != Rule::kDcasgd && rule != Rule::kLbsgd &&
         (t.learning_rate == 0 || (rule == Rule::kFtrl && s.learning_rate == 0));
}

template <Rule rule, int N>
__device__ __forceinline__ void update_elements(const UpdateTensor& t, const optim::Scalars& s, int64_t at) {
  const bool has_state = kHasState<rule> && (!kTakesMomentum<rule> || s.momentum != 0);
  const uint64_t position = s.begin + static_cast<uint64_t>(at);
  float w[N], g[N] = {}, v[kSlots<rule>][N] = {};
  load<N>(t.weight + at, w);
  load_as<N>(t.gradient_type, t.gradient, at, g);
  if (has_state) {
#pragma unroll
    for (int slot = 0; slot < kSlots<rule>; slot++) load<N>(t.state[slot] + at, v[slot]);
  }
#pragma unroll
  for (int k = 0; k < N; k++) step<rule>(s, s.gradient_scale * g[k], w[k], v, k, position + k);
  store<N>(w, t.weight + at);
  if (has_state) {
#pragma unroll
    for (int slot = 0; slot < kSlots<rule>; slot++) store<N>(v[slot], t.state[slot] + at);
  }
  if (t.copy != nullptr) store_as<N>(t.copy_type, w, t.copy, at);
}

template <Rule rule>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) update_kernel(const UpdateArguments a) {
  if (a.nonfinite != nullptr && *a.nonfinite != 0) return;
  const Chunk chunk = a.chunks[blockIdx.x];
  const UpdateTensor t = a.tensors[chunk.tensor];
  optim::Scalars s = a.scalars;
  const StepScalars& scalars = a.step.chosen();
  double rate = scalars.learning_rate * t.learning_rate;
  if (a.norm_rates != nullptr) rate *= a.norm_rates[chunk.tensor];
  s.learning_rate = static_cast<float>(rate * scalars.correction.numerator / scalars.correction.denominator);
  s.weight_decay = static_cast<float>(t.weight_decay);
  s.momentum = static_cast<float>(a.momentum * scalars.momentum_factor);
  s.gradient_scale = static_cast<float>(scalars.gradient_scale);
  s.noise_key = optim::noise::mixed(scalars.noise ^ t.array);
  s.begin = t.begin;
  s.applies = scalars.applies;
  if (is_frozen<rule>(t, s)) return;
  bool wide = aligned(t.weight) && aligned(t.gradient) && aligned(t.copy);
#pragma unroll
  for (int slot = 0; slot < kSlots<rule>; slot++) wide = wide && aligned(t.state[slot]);
  for_each_of(chunk, t.count, wide, [&]<int N>(int64_t at) { update_elements<rule, N>(t, s, at); });
}

// Calls f<rule>(), with the rule as a template argument.
template <class F>
void with_rule(Rule rule, F&& f) {
  switch (rule) {
    case Rule::kSgd: return f.template operator()<Rule::kSgd>();
    case Rule::kNag: return f.template operator()<Rule::kNag>();
    case Rule::kOldNag: return f.template operator()<Rule::kOldNag>();
    case Rule::kSgld: return f.template operator()<Rule::kSgld>();
    case Rule::kSignum: return f.template operator()<Rule::kSignum>();
    case Rule::kDcasgd: return f.template operator()<Rule::kDcasgd>();
    case Rule::kLbsgd: return f.template operator()<Rule::kLbsgd>();
    case Rule::kAdam: return f.template operator()<Rule::kAdam>();
    case Rule::kOldAdam: return f.template operator()<Rule::kOldAdam>();
    case Rule::kAdamax: return f.template operator()<Rule::kAdamax>();
    case Rule::kAdagrad: return f.template operator()<Rule::kAdagrad>();
    case Rule::kRmsprop: return f.template operator()<Rule::kRmsprop>();
    case Rule::kCenteredRmsprop: return f.template operator()<Rule::kCenteredRmsprop>();
    case Rule::kOldRmsprop: return f.template operator()<Rule::kOldRmsprop>();
    case Rule::kAdadelta: return f.template operator()<Rule::kAdadelta>();
    case Rule::kFtrl: return f.template operator()<Rule::kFtrl>();
  }
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    find_nonfinite_kernel(const UpdateTensor* tensors, const Chunk* chunks, LossScale* step) {
  const Chunk chunk = chunks[blockIdx.x];
  const UpdateTensor t = tensors[chunk.tensor];
  bool finite = true;
  for_each_of(chunk, t.count, aligned(t.gradient), [&]<int N>(int64_t at) {
    float g[N] = {};
    load_as<N>(t.gradient_type, t.gradient, at, g);
#pragma unroll
    for (int k = 0; k < N; k++) finite = finite && fabsf(g[k]) < INFINITY;
  });
  if (finite) return;
  step->nonfinite = 1;  // several threads may write it, but all write the same value
  atomicMax(&step->bad_array, static_cast<uint32_t>(t.array) + 1);
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) restore_kernel(const Restore a) {
  if (*a.nonfinite == 0) return;
  const int64_t step = int64_t{gridDim.x} * kBlockThreads;
  for (int64_t at = int64_t{blockIdx.x} * kBlockThreads + threadIdx.x; at < a.count; at += step) {
    a.values[at] = a.kept[at];
  }
}

__global__ void adjust_loss_scale_kernel(const AdjustLossScale a) {
  LossScale s = *a.loss_scale;
  const bool good = s.nonfinite == 0;
  if (!good) s.skipped++;
  s.last_skipped = good ? 0 : 1;
  if (a.dynamic) {
    const optim::LossScaleState next = optim::next_loss_scale(a.rule, {s.scale, int64_t{s.good_steps}}, good);
    s.scale = static_cast<float>(next.scale);
    s.good_steps = static_cast<uint32_t>(next.good_steps);
  }
  s.inverse = 1 / s.scale;
  s.nonfinite = 0;
  s.ended_bad_array = s.bad_array;
  s.bad_array = 0;
  *a.loss_scale = s;
}

}  // namespace

void update(const Update& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.step.scalars != nullptr, "the step is missing");
  const UpdateArguments arguments{.tensors = s.table.tensors,
                                  .chunks = s.table.chunks,
                                  .scalars = s.scalars,
                                  .step = s.step,
                                  .nonfinite = s.nonfinite,
                                  .momentum = s.momentum,
                                  .norm_rates = s.norm_rates};
  with_rule(s.rule, [&]<Rule rule>() { launch(launch_of("update", s.table, stream), update_kernel<rule>, arguments); });
}

void find_nonfinite(const Table<UpdateTensor>& table, LossScale* step, cudaStream_t stream) {
  launch(launch_of("find_nonfinite", table, stream), find_nonfinite_kernel, table.tensors, table.chunks, step);
}

void restore_if_nonfinite(const Restore& s, cudaStream_t stream) {
  DT_KERNEL_CHECK(s.count > 0 && s.nonfinite != nullptr, "there are no values to restore, or the flag is missing");
  const Grid grid = flat_grid(s.count);
  launch({.name = "restore_if_nonfinite",
          .grid = grid.grid,
          .block = grid.block,
          .bytes = 2 * s.count * int64_t{sizeof(float)},
          .stream = stream},
         restore_kernel, s);
}

void adjust_loss_scale(const AdjustLossScale& s, cudaStream_t stream) {
  launch(
      {.name = "adjust_loss_scale", .grid = {}, .block = {}, .bytes = 2 * int64_t{sizeof(LossScale)}, .stream = stream},
      adjust_loss_scale_kernel, s);
}

}  // namespace dtrain::cuda
