// Runs tasks on a fixed number of threads, in the order in which they were queued.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace dtrain::kvstore {

// Thread-safe. With 0 threads, run() executes the task in the caller's thread.
class TaskQueue {
 public:
  // `on_failure` is called with each exception of a task, on the thread that ran it. Null: tasks throw none.
  TaskQueue(int threads, const std::string& name, std::function<void(Error)> on_failure = nullptr);
  ~TaskQueue();  // waits for the running tasks; queued tasks are discarded
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void run(std::function<void()> task) DT_EXCLUDES(mutex_);
  [[nodiscard]] size_t queued() const DT_EXCLUDES(mutex_);  // tasks that no thread has begun

 private:
  void serve() DT_EXCLUDES(mutex_);

  const std::function<void(Error)> on_failure_;
  mutable Mutex mutex_;
  ConditionVariable wake_;
  std::deque<std::function<void()>> tasks_ DT_GUARDED_BY(mutex_);
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain::kvstore
