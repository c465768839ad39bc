// What the launcher of a job reports to the scheduler that it has started (job/process/scheduler_lines.h).
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/unique_fd.h"
#include "job/process/scheduler_lines.h"

namespace dtrain::role {

// A thread that reads the reports, so that they arrive at once.
class LauncherReports {
 public:
  // Calls `on_ended`, on the thread, for each process that has ended. `input`: this process's stdin, or in tests a
  // pipe; borrowed, and made nonblocking.
  LauncherReports(int input, std::function<void(const job::EndedProcess&)> on_ended, Log log);
  ~LauncherReports();
  LauncherReports(const LauncherReports&) = delete;
  LauncherReports& operator=(const LauncherReports&) = delete;

 private:
  void read_all();
  bool read_some();
  void take_lines();

  const int input_;
  const std::function<void(const job::EndedProcess&)> on_ended_;
  const Log log_;
  UniqueFd end_;      // an eventfd that ends the thread
  std::string rest_;  // what has been read after the last whole line
  std::thread thread_;
};

}  // namespace dtrain::role
