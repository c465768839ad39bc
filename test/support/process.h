// Runs programs in tests. Every process has a deadline and is killed together with its process group when its object is
// destroyed.
//
//   const Ended end = run({dtrain, "--kv-store", "dist_sycn"}, {.deadline_s = 5});
//   CHECK(end.code == 2);
//
// To do something while the program runs:
//
//   Process worker({dtrain, "--role", "worker", ...});
//   REQUIRE(worker.wait_for_output("joined", 10));
//   worker.signal(SIGKILL);
//   CHECK(worker.wait(12).signal == SIGKILL);
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::test {

struct ProcessOptions {
  double deadline_s = 30;                // for run(), which then kills the process group
  std::string directory;                 // working directory; empty: the test's own
  std::vector<std::string> environment;  // changes to the test's own: "NAME=value" sets, "NAME" removes
};

struct Ended {
  int code = -1;           // -1 if a signal ended the process
  int signal = 0;          // the signal that ended the process
  bool timed_out = false;  // killed at the deadline
  double seconds = 0;
  std::string output;  // stdout and stderr, in order of arrival
};

// A child process in a process group of its own. Its stdout and stderr are read through one pipe. Not thread-safe.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, const ProcessOptions& options = {})
      : start_(std::chrono::steady_clock::now()) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) become(arguments, options, ends[1]);
    setpgid(pid_, pid_);  // in the parent too, because either process may be first
    close(ends[1]);
    output_fd_ = ends[0];
    fcntl(output_fd_, F_SETFL, O_NONBLOCK);
  }
  ~Process() {
    kill_group();
    if (!reaped_) waitpid(pid_, &status_, 0);
    if (output_fd_ >= 0) close(output_fd_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& output() const { return output_; }
  void signal(int number) const {
    if (!reaped_) kill(pid_, number);
  }
  void signal_group(int number) const { kill(-pid_, number); }
  [[nodiscard]] bool running() {
    read_output(0);
    return !reap();
  }

  // Returns true when `text` has appeared in the output, false at the deadline or if the process ends without it.
  bool wait_for_output(const std::string& text, double deadline_s) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(deadline_s);
    while (output_.find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end) return false;
      if (reap()) {
        read_output(0);
        return output_.find(text) != std::string::npos;
      }
      read_output(20);
    }
    return true;
  }

  // Waits until the process ends. Kills its group at the deadline.
  Ended wait(double deadline_s) {
    Ended ended;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(deadline_s);
    while (!reap()) {
      if (std::chrono::steady_clock::now() > end && !ended.timed_out) {
        ended.timed_out = true;
        kill_group();
      }
      read_output(10);
    }
    read_output(0);
    ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    ended.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    ended.signal = WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
    ended.output = output_;
    return ended;
  }

 private:
  // In the child. Never returns.
  [[noreturn]] static void become(std::vector<std::string>& arguments, const ProcessOptions& options, int output) {
    setpgid(0, 0);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(126);
    for (const std::string& setting : options.environment) {
      const size_t equals = setting.find('=');
      if (equals == std::string::npos) {
        unsetenv(setting.c_str());
      } else {
        setenv(setting.substr(0, equals).c_str(), setting.c_str() + equals + 1, 1);
      }
    }
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    const std::string message = "cannot run " + arguments[0] + ": " + std::strerror(errno) + "\n";
    [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, message.data(), message.size());
    _exit(127);
  }

  // Returns true once the process has ended.
  bool reap() {
    if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return reaped_;
  }
  // Reads the available output. Waits for it at most `wait_ms`.
  void read_output(int wait_ms) {
    if (closed_) {  // the process is about to end; this pauses the caller's loop
      poll(nullptr, 0, wait_ms);
      return;
    }
    pollfd waiting{output_fd_, POLLIN, 0};
    if (poll(&waiting, 1, wait_ms) <= 0) return;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = read(output_fd_, bytes, sizeof bytes)) > 0) output_.append(bytes, static_cast<size_t>(count));
    if (count == 0) closed_ = true;
  }
  void kill_group() const { kill(-pid_, SIGKILL); }

  pid_t pid_ = -1;
  int output_fd_ = -1;
  int status_ = 0;
  bool reaped_ = false, closed_ = false;
  std::string output_;
  std::chrono::steady_clock::time_point start_;
};

inline Ended run(std::vector<std::string> arguments, const ProcessOptions& options = {}) {
  Process process(std::move(arguments), options);
  return process.wait(options.deadline_s);
}

// Runs a program that must succeed within a minute. Throws its words and its output if it does not.
inline void must_run(std::vector<std::string> arguments, const std::string& directory = "") {
  std::string words;
  for (const std::string& argument : arguments) words += argument + " ";
  const Ended ended = run(std::move(arguments), {.deadline_s = 60, .directory = directory, .environment = {}});
  if (ended.code != 0) throw std::runtime_error(words + "failed: " + ended.output);
}

}  // namespace dtrain::test
