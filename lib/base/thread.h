// A thread pool for loops over independent items, and the settings that each compute thread needs.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace dtrain {

// Makes the calling thread treat denormal inputs and results as 0 (FTZ, DAZ). Each compute thread must call it once.
// Without it, synthetic data made of denormals slowed a training step by a factor of 4 to 7.
void flush_denormals();

// Sets the name of the calling thread that ps and gdb show; only the first 15 characters are kept.
void name_thread(const std::string& name);

// Restricts the calling thread to these CPUs. It may run on all if `cpus` is empty or the system refuses.
void bind_thread(std::span<const int> cpus);

// From now on, the calling thread gets about a thirtieth of a core while other threads want all cores.
void run_in_background();

// Runs loops over independent items on a fixed number of threads, including the calling thread.
class ThreadPool {
 public:
  explicit ThreadPool(int threads, const std::string& name = "pool");  // `threads` must be at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(0) .. work(n - 1), each once, in any order, and returns when all have ended. If any of them threw,
  // throws the first exception again. Only one thread may call it at a time.
  void parallel_for(int64_t n, const std::function<void(int64_t)>& work) DT_EXCLUDES(mutex_);
  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  void serve() DT_EXCLUDES(mutex_);
  // Works on items. Releases the mutex while it works on an item.
  void take_items(const std::function<void(int64_t)>& work) DT_REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable wake_;
  ConditionVariable done_;
  const std::function<void(int64_t)>* work_ DT_GUARDED_BY(mutex_) = nullptr;
  int64_t next_ DT_GUARDED_BY(mutex_) = 0;
  int64_t end_ DT_GUARDED_BY(mutex_) = 0;
  int64_t running_ DT_GUARDED_BY(mutex_) = 0;
  std::exception_ptr thrown_ DT_GUARDED_BY(mutex_);  // the exception of the first item that threw
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain
