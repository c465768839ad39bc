// Programs that this process has started: their output and how they end, as events. They end with this process
// (process_group.h).
//
// All calls come from one thread, which has a SignalQueue: its SIGCHLD indicates that a program may have ended. No call
// blocks.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "proc/lines.h"
#include "proc/process_group.h"
#include "proc/program.h"

namespace dtrain::proc {

using Clock = std::chrono::steady_clock;

// A program printed a line. All lines of a program come before its ProcessEnd.
struct OutputLine {
  size_t process = 0;
  std::string text = {};
  bool is_stdout = true;
};
struct ProcessEnd {
  size_t process = 0;
  int status = 0;  // as wait() returns it
  uint64_t peak_rss_bytes = 0;
};
using Event = std::variant<OutputLine, ProcessEnd>;

struct ChildrenOptions {
  std::chrono::milliseconds kill_after{1000};  // between TERM and KILL after this process has died
  LineEnds stdout_ends = LineEnds::kNewline;
  // A file and its directory, which are removed after the programs have ended; empty: none.
  std::string leftover_file = {}, leftover_directory = {};
};

class Children {
 public:
  static Result<std::unique_ptr<Children>> create(ChildrenOptions options);

  // The caller's number `process` identifies the program in events. Code::kStartup if it cannot be executed.
  // `on_start`, if given, is called immediately with its pid; if that fails, the program is killed.
  Result<> start(size_t process, const Program& program, const std::function<Result<>(pid_t)>& on_start = nullptr);
  void signal(int number) const { group_.signal(number); }  // sends it to all
  void kill() const;                                        // sends SIGKILL to all
  void set_kill_after(std::chrono::milliseconds time) const { group_.set_kill_after(time); }

  // Appends the descriptors to poll; take() must be called when one of them is ready, and when a child has ended.
  void watch(std::vector<pollfd>& watched) const;
  // Appends the events that have happened since the last call.
  void take(std::vector<Event>& events);

  [[nodiscard]] bool running() const;

 private:
  struct Child {
    size_t number = 0;
    Process process;
    LineSplitter out, err;
    std::string input;  // the program's stdin
    size_t fed = 0;     // number of its bytes that have been written
    bool running = true;
  };

  Children(ProcessGroup group, ChildrenOptions options) : group_(std::move(group)), options_(std::move(options)) {}
  static void feed(Child& child);
  static void read(Child& child, int reads_max, std::vector<Event>& events);
  static void reap(Child& child, std::vector<Event>& events);

  ProcessGroup group_;
  ChildrenOptions options_;
  std::deque<Child> children_;
};

}  // namespace dtrain::proc
