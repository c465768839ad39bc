// Child processes that a test forks from itself. The test must have no threads and must not have used gRPC, because a
// child would inherit locks that are held by threads that it does not have.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "rpc/library_log.h"

namespace dtrain::rpc::test {

// A forked child, and the lines that it writes.
class Child {
 public:
  using Clock = std::chrono::steady_clock;

  template <class Work>
  explicit Child(Work work) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      std::signal(SIGPIPE, SIG_IGN);  // as dtrain does
      const LibraryLines none(Log::silent());
      const Result<> outcome = catching([&] { return work(ends[1]); });
      say(ends[1], outcome ? "well" : outcome.error().text());
      _exit(0);
    }
    close(ends[1]);
    read_ = ends[0];
  }
  ~Child() {
    kill(SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(read_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  static void say(int fd, const std::string& line) {
    const std::string text = line.substr(0, line.find('\n')) + "\n";
    if (write(fd, text.data(), text.size()) < 0) _exit(1);
  }
  void kill(int signal) const { ::kill(pid_, signal); }

  // The most resident memory that the child has had so far.
  [[nodiscard]] size_t peak_mib() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) / 1024;
    }
    throw std::runtime_error("no VmHWM in /proc");
  }

  // The next line of the child's output; empty if none comes before the deadline.
  std::string line(Clock::time_point deadline) {
    while (text_.find('\n') == std::string::npos) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd ready{.fd = read_, .events = POLLIN, .revents = 0};
      char bytes[512];
      if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return {};
      const ssize_t count = read(read_, bytes, sizeof(bytes));
      if (count <= 0) return {};
      text_.append(bytes, static_cast<size_t>(count));
    }
    const std::string first = text_.substr(0, text_.find('\n'));
    text_.erase(0, first.size() + 1);
    return first;
  }

 private:
  pid_t pid_ = -1;
  int read_ = -1;
  std::string text_;
};

}  // namespace dtrain::rpc::test
