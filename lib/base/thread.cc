#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <utility>

namespace dtrain {

void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

void name_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

void bind_thread(std::span<const int> cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

// Linux weighs the threads of a process one by one: nice 10 has a weight of 110, where nice 0 has 1024.
void run_in_background() {
  constexpr int kNicer = 16;
  const auto thread = static_cast<id_t>(::gettid());
  (void)::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kNicer);
}

ThreadPool::ThreadPool(int threads, const std::string& name) {
  for (int i = 1; i < threads; i++) {
    threads_.emplace_back([this, name] {
      name_thread(name);
      flush_denormals();
      serve();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::parallel_for(int64_t n, const std::function<void(int64_t)>& work) {
  const MutexLock lock(mutex_);
  work_ = &work;
  next_ = 0;
  end_ = n;
  if (n > 1) wake_.notify_all();
  take_items(work);
  done_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return running_ == 0; });
  work_ = nullptr;
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::take_items(const std::function<void(int64_t)>& work) {
  running_++;
  while (next_ < end_) {
    const int64_t item = next_++;
    std::exception_ptr thrown;
    try {
      const MutexUnlock unlocked(mutex_);
      work(item);
    } catch (...) {  // parallel_for throws this exception again
      thrown = std::current_exception();
    }
    if (thrown_ == nullptr) thrown_ = std::move(thrown);
  }
  if (--running_ == 0) done_.notify_all();
}

void ThreadPool::serve() {
  const MutexLock lock(mutex_);
  while (!stop_) {
    if (work_ != nullptr && next_ < end_) {
      take_items(*work_);
    } else {
      wake_.wait(mutex_);
    }
  }
}

}  // namespace dtrain
