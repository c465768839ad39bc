// Tasks on a fixed number of threads, first come first served.
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

// Any thread may call it. With no threads of its own, tasks run in the caller's.
class TaskQueue {
 public:
  TaskQueue(int threads, const std::string& name);
  ~TaskQueue();  // ends after the running tasks; those that wait never run
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void run(std::function<void()> task);
  // What the first task that threw has thrown.
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
