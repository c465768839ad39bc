// Threads: a pool for loops over independent items, and the settings that each compute thread needs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dtrain {

// Denormals become 0 in the calling thread, as inputs and as results (FTZ, DAZ): synthetic data made of them slowed a
// training step 4 to 7 times. Each thread that computes calls it once.
void flush_denormals();

// The name that ps and gdb show; at most 15 characters are kept.
void name_thread(const std::string& name);

// Runs loops over independent items on a fixed number of threads, the caller's among them.
class ThreadPool {
 public:
  explicit ThreadPool(int threads, const std::string& name = "pool");  // threads >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(0) .. work(n - 1), each once, in any order; returns when all have ended. Then throws what one of them
  // threw, if any did. One caller at a time.
  void parallel_for(int64_t n, const std::function<void(int64_t)>& work);
  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  void serve();
  void take_items(const std::function<void(int64_t)>& work, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int64_t)>* work_ = nullptr;
  int64_t next_ = 0;
  int64_t end_ = 0;
  int64_t running_ = 0;
  std::exception_ptr thrown_;  // by the first item that threw
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain
