#include "emulator.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "fiber.h"
#include "support/allocation_count.h"

// CUDA's built-in variables.
thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace dtrain::cuda::emulator {

namespace {

constexpr size_t kLanes = 32;

thread_local Session* current_session = nullptr;

// The numbers 0 .. n-1 in an order determined by the seed; `what` and `which` give different orders for different uses.
std::vector<int64_t> order_of(uint64_t seed, int64_t n, uint64_t what, uint64_t which) {
  if (seed > 1) {
    RandomStream random(seed, Use::kTest, what, which);
    return permutation(n, random);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (seed == 1) std::reverse(order.begin(), order.end());
  return order;
}

dim3 place_of(int64_t index, const dim3& extent) {
  const auto i = static_cast<unsigned>(index);
  return {i % extent.x, i / extent.x % extent.y, i / extent.x / extent.y};
}

// The threads of a block, run in turns until all have ended.
class Block {
 public:
  // `work` is the function that each thread runs.
  void run(const Launch& launch, const std::function<void()>& work, uint64_t seed, int64_t block);
  // Called by the running thread.
  void wait_for_block() { give_way(State::kAtBarrier); }
  uint32_t exchange(uint32_t bits, int lane_mask);
  void fence() { threads_[running_].fenced = true; }
  void check_published() const;

 private:
  enum class State { kNew, kReady, kAtBarrier, kAtShuffle, kEnded };
  struct Thread {
    State state = State::kNew;
    std::unique_ptr<Fiber> fiber;
    // The values given in the current and in the previous shuffle; slower threads may still have to read the latter.
    std::array<uint32_t, 2> given = {};
    unsigned shuffles = 0;
    bool fenced = false;  // whether it has called __threadfence since the last barrier
  };

  void give_way(State state);
  void take_turn(size_t index, const std::function<void()>& work);
  std::span<Thread> warp_at(size_t warp);
  void run_warp(size_t warp, const std::function<void()>& work, uint64_t seed, uint64_t which);
  void release_barrier(const char* kernel);
  static bool release_shuffle(std::span<Thread> warp);
  [[nodiscard]] size_t count(State state) const;

  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> idle_;  // stacks of threads that have ended, for reuse
  size_t running_ = 0;
  bool published_ = false;  // whether all threads called __threadfence before the last barrier, after the one before it
};

thread_local Block current_block;

void Block::run(const Launch& launch, const std::function<void()>& work, uint64_t seed, int64_t block) {
  threads_.clear();
  threads_.resize(size_t{blockDim.x} * blockDim.y * blockDim.z);
  published_ = false;
  const auto warps = static_cast<int64_t>((threads_.size() + kLanes - 1) / kLanes);
  for (uint64_t turn = 0; count(State::kEnded) < threads_.size(); turn++) {
    if (turn > 0) release_barrier(launch.name);
    const uint64_t which = static_cast<uint64_t>(block) << 32 | turn;
    for (const int64_t warp : order_of(seed, warps, 2, which)) run_warp(static_cast<size_t>(warp), work, seed, which);
  }
}

std::span<Block::Thread> Block::warp_at(size_t warp) {
  const std::span<Thread> all(threads_);
  return all.subspan(warp * kLanes, std::min(kLanes, all.size() - warp * kLanes));
}

// Runs a warp as far as it gets while the other warps do not run, as a device may do.
void Block::run_warp(size_t warp, const std::function<void()>& work, uint64_t seed, uint64_t which) {
  const std::span<Thread> threads = warp_at(warp);
  do {
    for (const int64_t i : order_of(seed, static_cast<int64_t>(threads.size()), 3 + warp, which)) {
      const State state = threads[static_cast<size_t>(i)].state;
      if (state == State::kNew || state == State::kReady) take_turn(warp * kLanes + static_cast<size_t>(i), work);
    }
  } while (release_shuffle(threads));
}

void Block::take_turn(size_t index, const std::function<void()>& work) {
  Thread& thread = threads_[index];
  running_ = index;
  threadIdx = place_of(static_cast<int64_t>(index), blockDim);
  if (thread.state == State::kNew) {
    if (idle_.empty()) idle_.push_back(std::make_unique<Fiber>());
    thread.fiber = std::move(idle_.back());
    idle_.pop_back();
    thread.fiber->start(work);
  } else {
    thread.fiber->resume();
  }
  if (!thread.fiber->ended()) return;
  thread.state = State::kEnded;
  idle_.push_back(std::move(thread.fiber));
}

void Block::give_way(State state) {
  Thread& thread = threads_[running_];
  thread.state = state;
  thread.fiber->give_way();
}

uint32_t Block::exchange(uint32_t bits, int lane_mask) {
  const size_t index = running_;
  const unsigned parity = threads_[index].shuffles++ % 2;
  threads_[index].given[parity] = bits;
  give_way(State::kAtShuffle);
  return threads_[index ^ static_cast<size_t>(lane_mask)].given[parity];
}

size_t Block::count(State state) const {
  return static_cast<size_t>(
      std::count_if(threads_.begin(), threads_.end(), [&](const Thread& t) { return t.state == state; }));
}

// Called when no warp can continue: releases the barrier. Throws where the block would hang on a device.
void Block::release_barrier(const char* kernel) {
  const size_t waiting = count(State::kAtBarrier), ended = count(State::kEnded);
  DT_CHECK(waiting == threads_.size(), "{}: {} of {} threads wait at a barrier, {} have ended", kernel, waiting,
           threads_.size(), ended);
  published_ = std::ranges::all_of(threads_, &Thread::fenced);
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.fenced = false;
  }
}

void Block::check_published() const {
  DT_CHECK(published_,
           "a block counts itself as finished, but not all of its threads have called __threadfence and then "
           "__syncthreads, so other blocks may not see its results");
}

// Lets a warp continue if all its threads are in the same shuffle.
bool Block::release_shuffle(std::span<Thread> warp) {
  const auto waits = [](const Thread& t) { return t.state == State::kAtShuffle; };
  if (warp.size() != kLanes || !std::all_of(warp.begin(), warp.end(), waits)) return false;
  for (Thread& thread : warp) thread.state = State::kReady;
  return true;
}

// Checks limits that a device enforces, for compute capability 8.0 and later. Source: CUDA's programming guide,
// "Technical Specifications".
void check_limits(const Launch& launch) {
  const auto& [x, y, z] = launch.grid;
  DT_CHECK(x >= 1 && y >= 1 && z >= 1 && x <= INT32_MAX && y <= 65535 && z <= 65535, "{}: a grid of {} x {} x {}",
           launch.name, x, y, z);
  const uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  DT_CHECK(threads >= 1 && threads <= 1024 && launch.block.z <= 64, "{}: a block of {} threads", launch.name, threads);
}

}  // namespace

void record(Record record) {
  if (current_session != nullptr) current_session->add(std::move(record));
}

Session::Session(uint64_t seed) : seed_(seed), previous_(current_session) {
  current_session = this;
}
Session::~Session() {
  current_session = previous_;
}

uint32_t exchange(unsigned mask, uint32_t bits, int lane_mask) {
  DT_CHECK(mask == 0xffffffff, "a shuffle of a part of a warp");
  return current_block.exchange(bits, lane_mask);
}

void check_published() {
  current_block.check_published();
}

}  // namespace dtrain::cuda::emulator

void __syncthreads() {
  dtrain::cuda::emulator::current_block.wait_for_block();
}

void __threadfence() {
  dtrain::cuda::emulator::current_block.fence();
}

namespace dtrain::cuda {

namespace {

void run_blocks(const Launch& launch, const std::function<void()>& work) {
  using namespace emulator;
  const uint64_t seed = current_session == nullptr ? 0 : current_session->seed();
  gridDim = {launch.grid.x, launch.grid.y, launch.grid.z};
  blockDim = {launch.block.x, launch.block.y, launch.block.z};
  const int64_t blocks = int64_t{gridDim.x} * gridDim.y * gridDim.z;
  for (const int64_t block : order_of(seed, blocks, 1, 0)) {
    blockIdx = place_of(block, gridDim);
    current_block.run(launch, work, seed, block);
  }
}

}  // namespace

void launch_kernel(const Launch& launch, const Kernel& kernel) {
  const test::PauseCounting pause;
  emulator::check_limits(launch);
  emulator::check_device(launch.stream);
  emulator::record({launch.name, launch.grid, launch.block, launch.bytes});
  emulator::queue(launch.stream,
                  [launch, device = emulator::current(), work = kernel.bind(kernel.function, kernel.arguments)] {
                    if (emulator::may_run(device)) run_blocks(launch, work);
                  });
}

}  // namespace dtrain::cuda
