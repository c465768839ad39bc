// Tests the emulator itself: it must detect the errors that it exists to detect.
#include "emulator.h"

#include <cuda_runtime.h>

#include <limits>

#include "cuda/runtime/memory.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

constexpr int kThreads = 64;

// y[i] = x of the thread on the opposite side of the block, through shared memory; with and without the barrier.
template <bool Barrier>
void mirror_kernel(const float* x, float* y) {
  __shared__ float memory[kThreads];
  memory[threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
  if (Barrier) __syncthreads();
  y[blockIdx.x * kThreads + threadIdx.x] = memory[kThreads - 1 - threadIdx.x];
}

void half_leaves_kernel(float*) {
  if (threadIdx.x < kThreads / 2) return;
  __syncthreads();
}

void half_shuffles_kernel(float* y) {
  if (threadIdx.x % 2 == 0) y[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1.0f, 1);
}

// Each block reads the result of the previous one, a dependence that a grid does not guarantee.
void chain_kernel(float* y) {
  y[blockIdx.x + 1] = y[blockIdx.x] + 1;
}

// Each block counts itself; the last one writes its number. With and without what makes its results visible first.
template <bool Fence, bool Barrier>
void count_kernel(unsigned* counter, float* y) {
  if (Fence) __threadfence();
  if (Barrier) __syncthreads();
  if (threadIdx.x != kThreads - 1 || atomicInc(counter, gridDim.x - 1) < gridDim.x - 1) return;
  *y = static_cast<float>(blockIdx.x);
}

void sum_of_warp_kernel(const float* x, float* y) {
  float sum = x[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  y[threadIdx.x] = sum;
}

Launch blocks_of(uint32_t count, uint32_t threads = kThreads) {
  return {.name = "test", .grid = {count}, .block = {threads}};
}

Floats mirrored(void (*kernel)(const float*, float*), uint64_t seed) {
  const emulator::Session session(seed);
  const Array x = floats(normals(2 * kThreads, 1)), y(Type::kFloat32, 2 * kThreads);
  launch(blocks_of(2), kernel, x.floats(), y.floats());
  return y.get();
}

}  // namespace

TEST_CASE("threads see what others wrote before a barrier, whatever the order", "[cuda]") {
  Floats expected = normals(2 * kThreads, 1);
  std::reverse(expected.begin(), expected.begin() + kThreads);
  std::reverse(expected.begin() + kThreads, expected.end());
  for (uint64_t seed = 0; seed < 6; seed++) CHECK(mirrored(mirror_kernel<true>, seed) == expected);
}

TEST_CASE("a missing barrier changes the result from order to order", "[cuda]") {
  const Floats first = mirrored(mirror_kernel<false>, 0);
  CHECK(mirrored(mirror_kernel<false>, 1) != first);
  CHECK(mirrored(mirror_kernel<false>, 2) != first);
}

TEST_CASE("blocks that rely on each other give other results in another order", "[cuda]") {
  const auto run = [](uint64_t seed) {
    const emulator::Session session(seed);
    const Array y(Type::kFloat32, 9);
    launch(blocks_of(8, 1), chain_kernel, y.floats());
    return y.get();
  };
  CHECK(run(0).back() == 8);
  CHECK(run(1).back() != 8);
}

TEST_CASE("barriers that not all threads reach are refused", "[cuda]") {
  const Array y(Type::kFloat32, kThreads);
  CHECK_THROWS_WITH(launch(blocks_of(1), half_leaves_kernel, y.floats()),
                    Catch::Contains("test: 32 of 64 threads wait at a barrier, 32 have ended"));
  CHECK_THROWS_AS(launch(blocks_of(1), half_shuffles_kernel, y.floats()), CheckFailed);
}

TEST_CASE("the last block is recognized in every order, and the counter begins again", "[cuda]") {
  const Counters counter(1);
  const Array y(Type::kFloat32, 1);
  for (const uint64_t seed : {0, 1, 0}) {
    const emulator::Session session(seed);
    launch(blocks_of(5), count_kernel<true, true>, counter.data(), y.floats());
    CHECK(y.get()[0] == (seed == 0 ? 4 : 0));
    CHECK(counter.are_zero());
  }
}

TEST_CASE("a block that counts itself before its results are visible is refused", "[cuda]") {
  const Counters counter(1);
  const Array y(Type::kFloat32, 1);
  for (const auto kernel : {count_kernel<false, true>, count_kernel<true, false>, count_kernel<false, false>}) {
    CHECK_THROWS_WITH(launch(blocks_of(2), kernel, counter.data(), y.floats()),
                      Catch::Contains("not all of its threads have called __threadfence and then __syncthreads"));
  }
}

TEST_CASE("lanes exchange their values", "[cuda]") {
  for (uint64_t seed = 0; seed < 4; seed++) {
    const emulator::Session session(seed);
    const Array x = floats(integers(kThreads, 3)), y(Type::kFloat32, kThreads);
    launch(blocks_of(1), sum_of_warp_kernel, x.floats(), y.floats());
    const Floats in = x.get(), out = y.get();
    for (size_t warp = 0; warp < kThreads; warp += 32) {
      float sum = 0;
      for (size_t i = 0; i < 32; i++) sum += in[warp + i];
      for (size_t i = 0; i < 32; i++) CHECK(out[warp + i] == sum);
    }
  }
}

TEST_CASE("launches that a device would refuse are refused, others recorded", "[cuda]") {
  const Array y(Type::kFloat32, 9);
  CHECK_THROWS_AS(launch({.name = "tall", .grid = {1, 65536}, .block = {1}}, chain_kernel, y.floats()), CheckFailed);
  CHECK_THROWS_AS(launch({.name = "empty", .grid = {0}, .block = {1}}, chain_kernel, y.floats()), CheckFailed);
  CHECK_THROWS_AS(launch(blocks_of(1, 1025), chain_kernel, y.floats()), CheckFailed);
  const emulator::Session session;
  launch({.name = "chain", .grid = {8}, .block = {1}, .bytes = 64}, chain_kernel, y.floats());
  REQUIRE(session.records().size() == 1);
  CHECK(session.records()[0].name == "chain");
  CHECK(session.records()[0].grid.x == 8);
  CHECK(session.records()[0].bytes == 64);
}

// Rounds like the device; the values follow from the definitions of the formats.
TEST_CASE("numbers are stored to the nearest, ties to even", "[cuda]") {
  const auto half = [](float x) { return __half2float(__float2half_rn(x)); };
  CHECK(half(2049) == 2048);
  CHECK(half(2051) == 2052);
  CHECK(half(65519) == 65504);
  CHECK(half(65520) == std::numeric_limits<float>::infinity());
  CHECK(half(0x1p-24f) == 0x1p-24f);
  CHECK(half(0x1p-25f) == 0);
  CHECK(std::isnan(half(NAN)));
  const auto bfloat = [](float x) { return __bfloat162float(__float2bfloat16_rn(x)); };
  CHECK(bfloat(257) == 256);
  CHECK(bfloat(259) == 260);
  CHECK(bfloat(3.4e38f) == std::numeric_limits<float>::infinity());
  CHECK(bfloat(-INFINITY) == -INFINITY);
  CHECK(std::isnan(bfloat(NAN)));
}

TEST_CASE("a call that fails names itself and its cause", "[cuda]") {
  emulator::fail_next_call(cudaErrorMemoryAllocation);
  CHECK_THROWS_WITH(DeviceMemory(64), Catch::Contains("out of memory: 1 MiB of device memory were wanted"));
  emulator::fail_next_call(cudaErrorInvalidValue);
  CHECK_THROWS_AS(make_stream(), DeviceError);
}

TEST_CASE("device memory begins with zeros and moves with its owner", "[cuda]") {
  DeviceMemory memory(100);
  CHECK(std::memcmp(memory.at(0), std::vector<char>(100).data(), 100) == 0);
  void* const address = memory.at(0);
  const DeviceMemory other = std::move(memory);
  CHECK(other.at(0) == address);
  CHECK(other.bytes() == 100);
  const PinnedMemory pinned(10);
  CHECK(pinned.data() != nullptr);
  const CudaStream stream = make_stream();
  CudaEvent event = make_event();
  event = make_event(true);
  CHECK(stream.get() != nullptr);
}

}  // namespace dtrain::cuda::test
