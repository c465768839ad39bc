#include "cuda/nccl_group.h"

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "cuda/nccl_collective.h"

namespace dtrain::cuda {

namespace {

// Where threads hand each other their bytes.
class Meeting {
 public:
  explicit Meeting(size_t size) : all_(size) {}

  Result<std::vector<std::string>> exchange(size_t rank, std::string mine) {
    std::unique_lock lock(mutex_);
    all_[rank] = std::move(mine);
    came_++;
    changed_.notify_all();
    changed_.wait(lock, [this] { return came_ == all_.size() || is_off_; });
    if (is_off_) return fail(Code::kStartup, "another device of this process could not join the group");
    return all_;
  }
  // One will not come.
  void call_off() {
    const std::lock_guard lock(mutex_);
    is_off_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
  size_t came_ = 0;
  bool is_off_ = false;
};

}  // namespace

// Joining waits for all: a thread each.
Result<std::vector<std::unique_ptr<comm::Collective>>> join_in_process(std::span<CudaExecutor* const> executors) {
  using End = std::unique_ptr<comm::Collective>;
  const auto process = make_nccl_process();
  Meeting meeting(executors.size());
  std::vector<Result<End>> joined(executors.size());
  const auto join_one = [&](size_t i) {
    const std::shared_ptr<StoreStream>& store = executors[i]->store_stream();
    const Result<> outcome = catching([&]() -> Result<> {
      DT_CUDA(cudaSetDevice(store->device()));
      DT_TRY(joined[i], join_nccl({.rank = static_cast<uint32_t>(i),
                                   .size = static_cast<uint32_t>(executors.size()),
                                   .process = process},
                                  store, [&](std::string mine) { return meeting.exchange(i, std::move(mine)); }));
      return {};
    });
    if (outcome) return;
    joined[i] = tl::unexpected(outcome.error());
    meeting.call_off();
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < executors.size(); i++) threads.emplace_back(join_one, i);
  for (std::thread& thread : threads) thread.join();
  std::vector<End> ends;
  for (size_t i = 0; i < joined.size(); i++) {
    if (!joined[i]) return tl::unexpected(std::move(joined[i].error()).with(fmt::format("joining device {}", i)));
    ends.push_back(std::move(*joined[i]));
  }
  return ends;
}

}  // namespace dtrain::cuda
