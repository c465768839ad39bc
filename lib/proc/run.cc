#include "proc/run.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "base/poll_until.h"

namespace dtrain::proc {
namespace {

// Time limit of drain(), which usually takes milliseconds. 10 s are enough even on a busy host.
constexpr auto kLastWords = std::chrono::seconds(10);

class Runs {
 public:
  Runs(const std::vector<Program>& programs, const RunAllOptions& options, SignalQueue& signals, Children& children)
      : programs_(programs),
        options_(options),
        signals_(signals),
        children_(children),
        finished_(programs.size(), {-1}) {}

  Result<std::vector<Finished>> run();

 private:
  Result<> start_more();
  void wait_for_events(std::optional<Clock::time_point> until);
  void take_events();
  void drain();
  void on_end(const ProcessEnd& end);
  [[nodiscard]] bool over() const { return running_ == 0 && (stopped_ || next_ == programs_.size()); }

  const std::vector<Program>& programs_;
  const RunAllOptions& options_;
  SignalQueue& signals_;
  Children& children_;
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
    children_.kill();
    deadline_ = Clock::now() + std::chrono::hours(1);
  }
  drain();
  return std::move(finished_);
}

// Reads the remaining output: when an rsync has ended, its ssh process may still be writing the error message.
void Runs::drain() {
  const auto deadline = Clock::now() + kLastWords;
  for (std::vector<pollfd> open; Clock::now() < deadline; open.clear()) {
    children_.watch(open);
    if (open.empty()) return;
    wait_for_events(deadline);
    take_events();
  }
}

Result<> Runs::start_more() {
  while (!stopped_ && next_ < programs_.size() && running_ < options_.at_once) {
    DT_TRY_VOID(children_.start(next_, programs_[next_], [this](pid_t pid) {
      return options_.on_start ? options_.on_start(next_, pid) : Result<>();
    }));
    next_++;
    running_++;
  }
  return {};
}

void Runs::wait_for_events(std::optional<Clock::time_point> until) {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  children_.watch(watched);
  poll_until(watched, until);
}

void Runs::take_events() {
  std::vector<Event> events;
  children_.take(events);
  for (const Event& event : events) {
    if (const OutputLine* line = std::get_if<OutputLine>(&event)) {
      if (line->is_stdout && options_.takes_line && options_.takes_line(line->process, line->text)) continue;
      finished_[line->process].add(*line);
    } else if (const ProcessEnd* end = std::get_if<ProcessEnd>(&event)) {
      on_end(*end);
    }
  }
}

void Runs::on_end(const ProcessEnd& end) {
  running_--;
  Finished& one = finished_[end.process];
  one.status = end.status;
  if (timed_out_) one.over = options_.limit;
  if (stopped_ || !options_.goes_on || options_.goes_on(end.process, one)) return;
  stopped_ = true;
  children_.kill();
}

}  // namespace

bool Finished::ended_with(int code) const {
  return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == code;
}

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

std::string failure_of(const std::vector<std::string>& arguments, const Finished& finished) {
  const std::string line = shell_line(arguments);
  const std::string words = finished.errors.empty() ? "" : ": " + first_words(finished.errors);
  if (finished.over) {
    return fmt::format("'{}' did not end within {} s{}", line,
                       std::chrono::ceil<std::chrono::seconds>(*finished.over).count(), words);
  }
  return fmt::format("'{}' {}{}", line, how_it_ended(finished.status), words);
}

Result<std::vector<Finished>> run_all(const std::vector<Program>& programs, const RunAllOptions& options,
                                      SignalQueue& signals) {
  DT_TRY(const std::unique_ptr<Children> children, Children::create(options.children));
  return Runs(programs, options, signals, *children).run();
}

Result<Finished> run(const Program& program, SignalQueue& signals, std::chrono::milliseconds limit) {
  DT_TRY(std::vector<Finished> all, run_all({program}, {.at_once = 1, .limit = limit}, signals));
  return std::move(all.front());
}

Result<std::vector<std::string>> output_of(const Program& program, SignalQueue& signals,
                                           std::chrono::milliseconds limit) {
  DT_TRY(Finished finished, run(program, signals, limit));
  if (!finished.ended_with(0)) return fail(Code::kStartup, "{}", failure_of(program.arguments, finished));
  return std::move(finished.output);
}

Result<Run> Run::start(const Program& program, std::chrono::milliseconds limit) {
  DT_TRY(std::unique_ptr<Children> children, Children::create({}));
  DT_TRY_VOID(children->start(0, program));
  return Run(std::move(children), limit);
}

std::optional<Clock::time_point> Run::wakes_at() const {
  return finished_.over ? std::nullopt : std::optional(deadline_);
}

std::optional<Finished> Run::take() {
  std::vector<Event> events;
  children_->take(events);
  bool over = false;
  for (const Event& event : events) {
    if (const OutputLine* line = std::get_if<OutputLine>(&event)) {
      finished_.add(*line);
    } else if (const ProcessEnd* end = std::get_if<ProcessEnd>(&event)) {
      finished_.status = end->status;
      over = true;
    }
  }
  if (over) return std::move(finished_);
  if (!finished_.over && Clock::now() >= deadline_) {
    finished_.over = limit_;
    children_->kill();
  }
  return std::nullopt;
}

}  // namespace dtrain::proc
