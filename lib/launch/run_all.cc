#include "launch/run_all.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "base/poll_until.h"

namespace dtrain::launch {
namespace {

constexpr auto kLastWords = std::chrono::seconds(10);  // for a busy machine; usually it takes milliseconds

class Runs {
 public:
  Runs(const std::vector<Command>& commands, const RunAllOptions& options, SignalQueue& signals, LocalHost& host)
      : commands_(commands), options_(options), signals_(signals), host_(host), finished_(commands.size(), {-1}) {}

  Result<std::vector<Finished>> run();

 private:
  Result<> start_more();
  void wait_for_events(std::optional<Clock::time_point> until);
  void take_events();
  void drain();
  void on_end(const ProcessEnd& end);
  [[nodiscard]] bool over() const { return running_ == 0 && (stopped_ || next_ == commands_.size()); }

  const std::vector<Command>& commands_;
  const RunAllOptions& options_;
  SignalQueue& signals_;
  LocalHost& host_;
  std::vector<Finished> finished_;
  size_t next_ = 0, running_ = 0;
  bool stopped_ = false, timed_out_ = false;
  Clock::time_point deadline_ = Clock::now() + options_.limit;
};

Result<std::vector<Finished>> Runs::run() {
  while (!over()) {
    DT_TRY_VOID(start_more());
    wait_for_events(options_.limit.count() > 0 ? std::optional(deadline_) : std::nullopt);
    for (const int signal : signals_.take()) {
      if (signal == SIGCHLD) continue;
      return fail(Code::kPreempted, "stopped by a signal ({})", strsignal(signal));
    }
    take_events();
    if (options_.limit.count() == 0 || Clock::now() < deadline_) continue;
    timed_out_ = stopped_ = true;
    host_.kill();
    deadline_ = Clock::now() + std::chrono::hours(1);
  }
  drain();
  return std::move(finished_);
}

// The ssh process of an rsync that has ended may still be writing its error message.
void Runs::drain() {
  const auto deadline = Clock::now() + kLastWords;
  for (std::vector<pollfd> open; Clock::now() < deadline; open.clear()) {
    host_.watch(open);
    if (open.empty()) return;
    wait_for_events(deadline);
    take_events();
  }
}

Result<> Runs::start_more() {
  while (!stopped_ && next_ < commands_.size() && running_ < options_.at_once) {
    DT_TRY_VOID(host_.start(next_, commands_[next_]));
    next_++;
    running_++;
  }
  return {};
}

void Runs::wait_for_events(std::optional<Clock::time_point> until) {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  host_.watch(watched);
  poll_until(watched, until);
}

void Runs::take_events() {
  std::vector<HostEvent> events;
  host_.take(events);
  for (const HostEvent& event : events) {
    if (const OutputLine* line = std::get_if<OutputLine>(&event)) {
      Finished& one = finished_[line->process];
      if (line->is_stdout && options_.takes_line && options_.takes_line(line->process, line->text)) continue;
      (line->is_stdout ? one.output : one.errors).push_back(line->text);
    } else if (const ProcessEnd* end = std::get_if<ProcessEnd>(&event)) {
      on_end(*end);
    }
  }
}

void Runs::on_end(const ProcessEnd& end) {
  running_--;
  Finished& one = finished_[end.process];
  one.status = end.status;
  one.timed_out = timed_out_;
  if (stopped_ || !options_.goes_on || options_.goes_on(end.process, one)) return;
  stopped_ = true;
  host_.kill();
}

}  // namespace

bool Finished::ended_with(int code) const {
  return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == code;
}

Result<std::vector<Finished>> run_all(const std::vector<Command>& commands, const RunAllOptions& options,
                                      SignalQueue& signals) {
  DT_TRY(const std::unique_ptr<LocalHost> host, LocalHost::create(options.host));
  return Runs(commands, options, signals, *host).run();
}

}  // namespace dtrain::launch
