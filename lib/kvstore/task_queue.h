// Runs tasks on a fixed number of threads, in the order in which they were queued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace dtrain::kvstore {

// Thread-safe. With 0 threads, run() executes the task in the caller's thread.
class TaskQueue {
 public:
  TaskQueue(int threads, const std::string& name);
  ~TaskQueue();  // waits for the running tasks; queued tasks are discarded
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void run(std::function<void()> task);
  // The error of the first task that threw an exception.
  [[nodiscard]] std::optional<Error> failure() const;

 private:
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::optional<Error> failure_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain::kvstore
