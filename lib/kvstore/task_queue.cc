#include "kvstore/task_queue.h"

#include <utility>

#include "base/thread.h"

namespace dtrain::kvstore {

TaskQueue::TaskQueue(int threads, const std::string& name, std::function<void(Error)> on_failure)
    : on_failure_(std::move(on_failure)) {
  for (int i = 0; i < threads; i++) {
    threads_.emplace_back([this, name] {
      name_thread(name);
      flush_denormals();
      serve();
    });
  }
}

TaskQueue::~TaskQueue() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskQueue::run(std::function<void()> task) {
  if (threads_.empty()) return task();
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

size_t TaskQueue::queued() const {
  const MutexLock lock(mutex_);
  return tasks_.size();
}

void TaskQueue::serve() {
  const MutexLock lock(mutex_);
  while (true) {
    wake_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return stop_ || !tasks_.empty(); });
    if (stop_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    const MutexUnlock unlocked(mutex_);
    Result<> result = catching([&]() -> Result<> {
      task();
      return {};
    });
    if (!result && on_failure_) on_failure_(std::move(result.error()));
  }
}

}  // namespace dtrain::kvstore
