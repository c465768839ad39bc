// Programs that this process has started. Their output and their ends are delivered as events. The programs end when
// this process ends (process_group.h).
//
// All calls must come from one thread, which must have a SignalQueue: a SIGCHLD in the queue indicates that a program
// may have ended. No call blocks.
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

// A program has printed a line. All lines of a program are delivered before its ProcessEnd.
struct OutputLine {
  size_t process = 0;
  std::string text = {};
  bool is_stdout = true;
};
struct ProcessEnd {
  size_t process = 0;
  int status = 0;  // how the program ended, as wait() reports it
  uint64_t peak_rss_bytes = 0;
};
using Event = std::variant<OutputLine, ProcessEnd>;

struct ChildrenOptions {
  std::chrono::milliseconds kill_after{1000};  // if this process dies: the time between TERM and KILL
  LineEnds stdout_ends = LineEnds::kNewline;
  // A file and its directory, which are removed after the programs have ended. Empty: there is none.
  std::string leftover_file = {}, leftover_directory = {};
};

class Children {
 public:
  static Result<std::unique_ptr<Children>> create(ChildrenOptions options);

  // Starts a program. `process` is the number that identifies the program in events; the caller chooses it. `on_start`,
  // if given, is called immediately with the program's pid; if it fails, the program is killed. Code::kStartup if the
  // program cannot be executed.
  Result<> start(size_t process, const Program& program, const std::function<Result<>(pid_t)>& on_start = nullptr);
  // Appends to the stdin of a program with Program::takes_more_input. What a program that has ended does not read is
  // dropped.
  void send(size_t process, std::string_view text);
  void signal(int number) const { group_.signal(number); }  // sends the signal to all programs
  void kill() const;                                        // sends SIGKILL to all programs
  void set_kill_after(std::chrono::milliseconds time) const { group_.set_kill_after(time); }

  // Appends the descriptors to be polled. take() must be called when one of them is ready, and when a child has ended.
  void watch(std::vector<pollfd>& watched) const;
  // Appends the events that have happened since the last call.
  void take(std::vector<Event>& events);

  [[nodiscard]] bool running() const;

 private:
  struct Child {
    size_t number = 0;
    Process process;
    LineSplitter out, err;
    std::string input;              // the part of the program's stdin that has not been written
    bool takes_more_input = false;  // whether its stdin stays open when everything is written
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
